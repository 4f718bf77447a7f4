// Another game: one expression, and thousands of texts. A judge and a matcher read them together, byte by byte, along a
// tree of texts: either all texts up to some length over a few bytes, or those that the matcher considers live, over
// all bytes of the expression and one more. To go back, the matcher rolls back. Sometimes a fork is kept.
//
//  - a text is accepted if and only if it is a match;
//  - a byte is rejected only if no text with this prefix is a match: of all slightly longer ones, or of some;
//  - the core's completion of a state makes a match;
//  - tokens of several bytes do what their bytes do, and masks say which of them can be accepted.
//
// A text counts once for each expression, however often it occurs; other queries are counted separately.
#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "expressions.hpp"
#include "judge.hpp"
#include "play.hpp"

namespace guiderail::fuzz {
namespace {

constexpr u32 kMostTexts = 12'000;  // of one expression
constexpr u32 kMostKept = 24;       // matches from which others are made
constexpr u32 kMostSearched = 12;   // completions
constexpr u32 kMostMasks = 4;

struct {
  u64 inputs = 0, expressions = 0, refused = 0, meaningless = 0;
  u64 texts = 0, matches = 0, early = 0;  // early: rejected before their last byte
  u64 completions = 0, open = 0, splits = 0, rollbacks = 0, forks = 0, masks = 0, bits = 0;
} totals;

// The bytes of a term.
void collect(const Oracle& oracle, int index, std::vector<bool>& seen, ByteSet& to) {
  if (index == kNoMeaning || seen[static_cast<std::size_t>(index)]) return;
  seen[static_cast<std::size_t>(index)] = true;
  const Term& t = oracle.terms()[static_cast<std::size_t>(index)];
  auto add = [&](std::string_view text) {
    for (char c : text) to.add(static_cast<u8>(c));
  };
  for (const std::string& text : t.texts) add(text);
  if (t.chars)
    for (std::size_t i = 0; i < t.chars->ranges().size() && i < 2; ++i) add(utf8(t.chars->ranges()[i].first));
  for (unsigned b = 0; b < 256; ++b)
    if (t.bytes.has(static_cast<u8>(b))) {  // one of them
      to.add(static_cast<u8>(b));
      break;
    }
  if (t.kind == Term::Escaped) add("\\n\"");
  if (t.object) {
    add("\"");
    add(t.object->comma);
    add(t.object->colon);
    for (const std::string& name : t.object->names) add(name);
    for (const auto& ways : t.object->ways)
      for (const auto& way : ways) collect(oracle, way.value, seen, to);
    for (const auto& other : t.object->others) {
      collect(oracle, other.key, seen, to);
      collect(oracle, other.value, seen, to);
    }
  }
  if (t.kind == Term::Distinct) add(",");
  if (t.lexed)
    for (const auto& terminal : t.lexed->terminals) collect(oracle, terminal.text, seen, to);
  for (int part : t.parts) collect(oracle, part, seen, to);
}

class Texts {
 public:
  Texts(Input& in, u32 vocabulary_index, std::shared_ptr<Guide> guide, Oracle& oracle, int term)
      : in_(in),
        vocabulary_(*vocabulary(vocabulary_index)),
        guide_(std::move(guide)),
        matcher_(guide_, vocabulary_.stops()),
        at_(&matcher_),
        judge_(oracle),
        term_(term) {
    std::vector<bool> seen(oracle.terms().size());
    ByteSet bytes;
    collect(oracle, term, seen, bytes);
    for (unsigned b = 0; b < 256; ++b)
      if (bytes.has(static_cast<u8>(b))) letters_.push_back(static_cast<u8>(b));
    const u8 other = in_.chance(4) ? in_.byte() : static_cast<u8>('a' + in_.below(3));
    if (!bytes.has(other)) letters_.push_back(other);
    for (std::size_t i = letters_.size(); i-- > 1;)
      std::swap(letters_[i], letters_[in_.below(static_cast<u32>(i + 1))]);
  }

  void run() {
    all_ = in_.chance(2);
    if (all_) {
      letters_.resize(std::min<std::size_t>(letters_.size(), 2 + in_.below(4)));
      most_dead_ = in_.chance(4) ? kInf : 2;
      u32 count = 1;
      for (u64 level = 1; longest_ < 12 && count + level * letters_.size() <= kMostTexts; ++longest_)
        count += static_cast<u32>(level *= letters_.size());
    } else {
      longest_ = 26;
    }
    live();
    mutants();
  }

 private:
  Program& program() { return *matcher_.program(); }

  bool first_time() {
    u64 hash = 0xcbf29ce484222325ULL;
    for (char c : judge_.text()) hash = (hash ^ static_cast<u8>(c)) * 0x100000001b3ULL;
    return met_.insert(hash ^ u64{judge_.size()} << 56).second;
  }

  // Compares the judge's text with the core's answer.
  bool judge(bool accepted, bool early) {
    const bool expected = judge_.matches(term_);
    if (accepted != expected)
      fail(shown(judge_.text()) + (accepted ? " is accepted, and is no match" : " is a match, and is refused"));
    if (first_time()) {
      ++totals.texts;
      ++texts_;
      totals.matches += expected;
      totals.early += early;
    }
    return expected;
  }

  // Checks the text that the matcher has read, and what follows.
  void live() {
    const bool match = judge(at_->accepting(), false);
    if (match && matches_.size() < kMostKept) matches_.emplace_back(judge_.text());
    const Id state = at_->state();
    if (states_.insert(state).second) {
      if (searched_ < kMostSearched && in_.chance(4)) completion(state);
      if (masks_ < kMostMasks && in_.chance(16)) mask();
      if (in_.chance(8)) token();
    }
    if (judge_.size() >= longest_) return;
    if (in_.chance(64)) {
      ++totals.forks;
      Matcher twin(*at_);
      Matcher* const before = std::exchange(at_, &twin);
      children();
      at_ = before;
    } else {
      children();
    }
    if (at_->state() != state) fail("the state changed under " + shown(judge_.text()));
  }

  void children() {
    const std::size_t first = all_ ? 0 : in_.below(static_cast<u32>(letters_.size()));
    for (std::size_t i = 0; i < letters_.size() && texts_ < kMostTexts; ++i) {
      const u8 letter = letters_[(first + i) % letters_.size()];
      const Id state = at_->state();
      const bool accepted = at_->accept_token(letter);
      if (!accepted && at_->state() != state) fail("a refused token changed the state");
      const u32 before = judge_.size();
      try {
        judge_.push(letter);
        accepted ? live() : dead();
      } catch (const Unjudged&) {
      }
      judge_.shrink(before);
      if (!accepted) continue;
      at_->rollback(1);
      ++totals.rollbacks;
      if (at_->state() != state) fail("rollback does not lead back");
    }
  }

  // The matcher rejected the last byte: no match has this prefix.
  void dead(u32 since = 0) {
    judge(false, since > 0);
    if (all_) {
      if (judge_.size() >= longest_ || since >= most_dead_) return;
      const u32 before = judge_.size();
      for (u8 letter : letters_) {
        judge_.push(letter);
        dead(since + 1);
        judge_.shrink(before);
      }
      return;
    }
    if (!matches_.empty() && in_.chance(4)) {
      const std::string& other = matches_[in_.below(static_cast<u32>(matches_.size()))];
      follow(std::string_view(other).substr(in_.below(static_cast<u32>(other.size()) + 1)));
    }
    if (in_.chance(8)) {
      std::string more;
      for (u32 n = 1 + in_.below(3); n > 0; --n) more += static_cast<char>(letters_[in_.below(size())]);
      follow(more);
    }
  }
  u32 size() const { return static_cast<u32>(letters_.size()); }

  // No text with this continuation is a match.
  void follow(std::string_view more) {
    const u32 before = judge_.size();
    try {
      for (char c : more.substr(0, Judge::kLongest - before)) {
        judge_.push(static_cast<u8>(c));
        judge(false, true);
      }
    } catch (const Unjudged&) {
    }
    judge_.shrink(before);
  }

  void completion(Id state) {
    ++searched_;
    std::string rest;
    if (!program().shortest(state, 40, rest)) {
      ++totals.open;
      return;
    }
    if (judge_.size() + rest.size() > Judge::kLongest) return;
    const u32 before = judge_.size();
    try {
      for (char c : rest) judge_.push(static_cast<u8>(c));
      if (!judge_.matches(term_)) fail(shown(judge_.text()) + " is said to be a match, by its completion");
      ++totals.completions;
      if (matches_.size() < kMostKept) matches_.emplace_back(judge_.text());
    } catch (const Unjudged&) {
    }
    judge_.shrink(before);
  }

  // A token of several bytes equals its bytes.
  void token() {
    const u32 token = in_.below(vocabulary_.token_count());
    if (!vocabulary_.is_text(token)) return;
    const std::string_view bytes = vocabulary_.bytes(token);
    const Id state = at_->state(), end = program().advance(state, bytes);
    Matcher twin(*at_);
    if (twin.accept_token(token) != (end != kEmpty)) fail("the token " + shown(bytes) + " is not what its bytes are");
    const u32 before = judge_.size();
    if (before + bytes.size() > Judge::kLongest) return;
    ++totals.splits;
    try {
      for (char c : bytes) judge_.push(static_cast<u8>(c));
      if (judge_.matches(term_) != (end != kEmpty && twin.accepting()))
        fail("after the token " + shown(bytes) + " of " + shown(judge_.text()) + " the matcher is wrong");
    } catch (const Unjudged&) {
    }
    judge_.shrink(before);
  }

  // What is allowed can be completed to a match; what is not allowed is rejected, and a few continuations of it are not
  // matches.
  void mask() {
    ++masks_;
    ++totals.masks;
    std::vector<u32> mask(vocabulary_.words());
    at_->fill(mask.data());
    const auto& stops = vocabulary_.stops();
    const u32 count = vocabulary_.token_count(), step = count > 1000 ? 1 + in_.below(count / 500) : 1;
    for (u32 t = 0; t < count; t += step) {
      const bool stop = std::find(stops.begin(), stops.end(), t) != stops.end();
      const Id next = guide_->advance(program(), at_->state(), t);
      const bool expected = next != kEmpty || (stop && at_->accepting());
      const bool bit = mask[t >> 5] >> (t & 31) & 1;
      ++totals.bits;
      if (bit != expected)
        fail("token " + std::to_string(t) + " " + shown(vocabulary_.bytes(t)) + " after " + shown(judge_.text()) +
             (expected ? " can be accepted, and the mask forbids it" : " is allowed, and cannot be accepted"));
      if (!in_.chance(32) || !vocabulary_.is_text(t) || judge_.size() + vocabulary_.bytes(t).size() > Judge::kLongest)
        continue;
      const u32 before = judge_.size();
      try {
        for (char c : vocabulary_.bytes(t)) judge_.push(static_cast<u8>(c));
        if (!bit) {
          judge(false, true);
          if (!matches_.empty()) {
            const std::string& other = matches_[in_.below(static_cast<u32>(matches_.size()))];
            follow(std::string_view(other).substr(in_.below(static_cast<u32>(other.size()) + 1)));
          }
        } else if (searched_ < kMostSearched) {
          completion(next);
        }
      } catch (const Unjudged&) {
      }
      judge_.shrink(before);
    }
  }

  // Texts that are almost matches.
  void mutants() {
    const std::size_t count = matches_.size();
    for (std::size_t i = 0; i < count; ++i)
      for (u32 n = 0; n < 6; ++n) {
        std::string text = matches_[i];
        const u32 at = in_.below(static_cast<u32>(text.size()) + 1);
        const char letter = static_cast<char>(letters_[in_.below(size())]);
        switch (in_.below(5)) {
          case 0: text.insert(at, 1, letter); break;
          case 1:
            if (at < text.size()) text[at] = letter;
            break;
          case 2: text.erase(at, 1); break;
          case 3: text.insert(at, text.substr(at / 2, 1 + in_.below(4))); break;
          default: {
            const std::string& other = matches_[in_.below(static_cast<u32>(count))];
            text = text.substr(0, at) + other.substr(in_.below(static_cast<u32>(other.size()) + 1));
          }
        }
        if (text.size() > Judge::kLongest) continue;
        Matcher twin(guide_, vocabulary_.stops());
        const bool read = twin.accept_string(text);
        judge_.clear();
        try {
          for (char c : text) judge_.push(static_cast<u8>(c));
          judge(read && twin.accepting(), !read);
        } catch (const Unjudged&) {
        }
      }
  }

  Input& in_;
  Vocabulary& vocabulary_;
  std::shared_ptr<Guide> guide_;
  Matcher matcher_;
  Matcher* at_;
  Judge judge_;
  int term_;
  std::vector<u8> letters_;
  bool all_ = false;
  u32 longest_ = 0, most_dead_ = 0, texts_ = 0, searched_ = 0, masks_ = 0;
  std::unordered_set<u64> met_;
  std::unordered_set<Id> states_;
  std::vector<std::string> matches_;
};

}  // namespace

void print_counts() {
  const auto n = [](u64 count) { return static_cast<unsigned long long>(count); };
  std::fprintf(
      stderr,
      "inputs %llu, expressions %llu (refused %llu, without a meaning %llu), texts %llu (matches %llu, refused "
      "before their last byte %llu), completions %llu (none found %llu), tokens %llu, rollbacks %llu, forks "
      "%llu, masks %llu (bits %llu)\n",
      n(totals.inputs), n(totals.expressions), n(totals.refused), n(totals.meaningless), n(totals.texts),
      n(totals.matches), n(totals.early), n(totals.completions), n(totals.open), n(totals.splits), n(totals.rollbacks),
      n(totals.forks), n(totals.masks), n(totals.bits));
}

void forget() {
  for (u32 i = 0; i < kVocabularies; ++i) vocabulary(i)->clear_cache();
}

void play(const u8* data, std::size_t size) {
  ++totals.inputs;
  Input in(data, size);
  const u32 which = in.chance(8) ? 1 : 3;
  Oracle oracle;
  try {
    auto arena = std::make_shared<Arena>(Limits{.max_nodes = 100'000, .fuel = 10'000});
    const Made root = Expressions(*arena, oracle, in).run();
    if (explaining)
      std::fprintf(stderr, "# vocabulary %u\nb = _core.Builder(100000, 10000)\nroot = %s\n", which, root.code.c_str());
    if (root.term == kNoMeaning) {
      ++totals.meaningless;
      return;
    }
    auto program = std::make_shared<Program>(arena, root.id);
    auto guide = std::make_shared<Guide>(program, vocabulary(which), symbols(which), 0);
    ++totals.expressions;
    try {
      Texts(in, which, guide, oracle, root.term).run();
    } catch (const Error& error) {
      if (!is_limit(error)) fail("while reading: " + error.code + ": " + error.what());
    } catch (const Unjudged&) {
    }
  } catch (const Error&) {
    ++totals.refused;
  }
}

}  // namespace guiderail::fuzz
