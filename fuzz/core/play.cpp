#include "play.hpp"

#include <cstdio>
#include <cstdlib>

#include "expressions.hpp"
#include "judge.hpp"

namespace guiderail::fuzz {
namespace {

constexpr std::size_t kMostChecked = 400;  // tokens of one mask; of more, some are drawn

Counts totals;

bool bit(const std::vector<u32>& mask, u32 token) { return mask[token >> 5] >> (token & 31) & 1; }

class Game {
 public:
  Game(Input& in, u32 vocabulary_index, std::shared_ptr<Guide> guide, Oracle& oracle, int term)
      : in_(in),
        index_(vocabulary_index),
        vocabulary_(*vocabulary(vocabulary_index)),
        guide_(std::move(guide)),
        matcher_(guide_, vocabulary_.stops()),
        oracle_(oracle),
        term_(term) {}

  void run() {
    judge_texts();
    const u32 steps = 1 + in_.below(6);
    for (u32 i = 0; i < steps && !matcher_.terminated(); ++i) {
      try {
        const std::vector<u32> mask = check_mask();
        check_state();
        try_something(mask);
        if (matcher_.terminated() || !go_on(mask)) break;
      } catch (const Error& error) {
        if (!is_limit(error)) throw;
        return;
      }
    }
    if (!matcher_.terminated() && in_.chance(3)) budgeted();
  }

 private:
  Program& program() { return *matcher_.program(); }

  // The core and the oracle agree on texts.
  void judge_texts() {
    if (term_ == kNoMeaning) return;
    for (u32 count = 4; count > 0; --count) {
      std::string text;
      for (u32 n = in_.below(8); n > 0; --n) {
        const std::string& piece = kPieces[in_.below(in_.chance(2) ? 6 : 22)];
        if (text.size() + piece.size() <= kLongestText) text += piece;
      }
      judge(text);
    }
    std::string shortest;
    if (program().shortest(guide_->root(), kLongestText, shortest)) {
      if (!judged(shortest, true)) fail("the completion " + shown(shortest) + " is no match");
      if (!shortest.empty()) {
        shortest.erase(in_.below(static_cast<u32>(shortest.size())), 1);
        if (is_utf8(shortest)) judge(shortest);
      }
    }
  }

  // Does the oracle agree? What it cannot judge counts as agreement.
  bool judged(const std::string& text, bool accepted) {
    try {
      return oracle_.matches(term_, text) == accepted;
    } catch (const Unjudged&) {
      return true;
    }
  }

  void judge(const std::string& text) {
    Id state;
    try {
      state = program().advance(guide_->root(), text);
    } catch (const Error& error) {
      if (is_limit(error)) return;
      throw;
    }
    ++totals.judged;
    const bool accepted = state != kEmpty && program().accepting(state);
    if (!judged(text, accepted))
      fail(shown(text) + (accepted ? " is accepted, and is no match" : " is a match, and is refused"));
  }

  void check_state() {
    if (spelled_ && term_ != kNoMeaning && read_.size() <= kLongestText && is_utf8(read_)) {
      ++totals.judged;
      if (!judged(read_, matcher_.accepting()))
        fail("after " + shown(read_) + " the matcher " +
             (matcher_.accepting() ? "accepts, wrongly" : "does not accept"));
    }
    std::string rest;
    if (in_.chance(4) && program().shortest(matcher_.state(), 32, rest)) {
      const Id end = program().advance(matcher_.state(), rest);
      if (end == kEmpty || !program().accepting(end)) fail("the completion " + shown(rest) + " is refused");
      const std::string whole = read_ + rest;
      if (spelled_ && term_ != kNoMeaning && whole.size() <= kLongestText && is_utf8(whole) && !judged(whole, true))
        fail("the completion " + shown(rest) + " of " + shown(read_) + " makes no match");
    }
  }

  // Each bit says whether the token is accepted, padding is 0, and some bit is set unless nothing can follow.
  std::vector<u32> check_mask() {
    std::vector<u32> mask(vocabulary_.words(), 0xA5A5A5A5);
    const bool restricts = matcher_.fill(mask.data());
    ++totals.masks;
    const u32 count = vocabulary_.token_count();
    const u32 step = count > kMostChecked ? 1 + count / kMostChecked : 1;
    u32 t = step > 1 ? in_.below(step) : 0;
    bool some = false;
    for (; t < count; t += step) check_bit(mask, t);
    if (step > 1)
      for (t = 0; t < 256; ++t) check_bit(mask, t);
    for (t = count; t < 32 * vocabulary_.words(); ++t)
      if (bit(mask, t)) fail("a padding bit is set: " + std::to_string(t));
    for (u32 w : mask) some = some || w != 0;
    if (!restricts)
      for (t = 0; t < count; ++t)
        if (!bit(mask, t)) fail("a mask that is said to restrict nothing does");
    if (!some && (has_all_bytes(index_) || matcher_.accepting())) fail("nothing is allowed: a dead end");
    return mask;
  }

  void check_bit(const std::vector<u32>& mask, u32 token) {
    ++totals.bits;
    bool expected;
    const auto& stops = vocabulary_.stops();
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
      expected = matcher_.accepting() || guide_->advance(program(), matcher_.state(), token) != kEmpty;
    } else {
      expected = guide_->advance(program(), matcher_.state(), token) != kEmpty;
    }
    if (bit(mask, token) != expected)
      fail("token " + std::to_string(token) + " " + shown(vocabulary_.bytes(token)) + " after " + shown(read_) +
           (expected ? " can be accepted, and the mask forbids it" : " is allowed, and cannot be accepted"));
  }

  void same(const std::vector<u32>& one, const std::vector<u32>& other, const char* what) {
    if (one != other) fail(std::string("two masks differ: ") + what);
  }

  void try_something(const std::vector<u32>& mask) {
    const std::size_t words = vocabulary_.words();
    const Id state = matcher_.state();
    const std::vector<std::int64_t> history = matcher_.history(matcher_.step_count());
    switch (in_.below(8)) {
      case 0: {  // a fork is independent
        Matcher twin(matcher_);
        const u32 token = in_.below(vocabulary_.token_count());
        const bool accepted = twin.accept_token(token);
        if (accepted != bit(mask, token)) fail("accept_token and the mask differ at " + std::to_string(token));
        if (!accepted && twin.state() != state) fail("a refused token changed the state");
        if (accepted) twin.rollback(1);
        if (twin.state() != state || twin.terminated()) fail("rollback does not lead back");
        std::vector<u32> again(words);
        twin.fill(again.data());
        same(mask, again, "after a rollback");
        break;
      }
      case 1: {  // validate counts what accept_token would accept
        std::vector<std::int64_t> draft;
        for (u32 n = in_.below(5); n > 0; --n) draft.push_back(pick(mask, in_.chance(2)));
        const std::size_t valid = matcher_.validate(draft);
        Matcher twin(matcher_);
        std::size_t accepted = 0;
        while (accepted < draft.size() && !twin.terminated() && twin.accept_token(draft[accepted])) ++accepted;
        if (valid != accepted)
          fail("validate says " + std::to_string(valid) + ", accepted are " + std::to_string(accepted));
        break;
      }
      case 2: {  // masks of a draft are those met token by token
        std::vector<std::int64_t> draft, parents;
        for (u32 n = in_.below(4); n > 0; --n) {
          parents.push_back(static_cast<std::int64_t>(in_.below(static_cast<u32>(draft.size()) + 1)) - 1);
          draft.push_back(pick(mask, in_.chance(2)));
        }
        std::vector<std::vector<u32>> rows(draft.size() + 1, std::vector<u32>(words));
        std::vector<u32*> out;
        for (auto& row : rows) out.push_back(row.data());
        const std::vector<bool> accepted = matcher_.fill_draft(draft, parents, out);
        same(mask, rows[0], "a draft's first");
        for (std::size_t i = 0; i < draft.size(); ++i) {
          Matcher twin(matcher_);
          std::vector<std::size_t> path{i};
          while (parents[path.back()] >= 0) path.push_back(static_cast<std::size_t>(parents[path.back()]));
          bool all = true;
          while (all && !path.empty()) {
            all = !twin.terminated() && twin.accept_token(draft[path.back()]);
            path.pop_back();
          }
          if (all != accepted[i]) fail("fill_draft and accept_token differ");
          if (!all || twin.terminated()) continue;
          std::vector<u32> row(words);
          twin.fill(row.data());
          same(row, rows[i + 1], "a draft's");
        }
        break;
      }
      case 3: {  // forced bytes are the only ones
        const std::string forced = matcher_.forced(8);
        Id at = state;
        for (char c : forced) {
          const ByteSet next = program().next_bytes(at);
          if (next.count() != 1 || !next.has(static_cast<u8>(c)) || program().accepting(at))
            fail("a byte is said to be forced, and is not");
          at = program().advance(at, std::string_view(&c, 1));
        }
        break;
      }
      case 4: {  // a string equals its bytes
        std::string text;
        for (u32 n = 1 + in_.below(3); n > 0; --n) text += kPieces[in_.below(22)];
        Matcher twin(matcher_);
        Id at = state;
        for (char c : text)
          if (at != kEmpty) at = program().advance(at, std::string_view(&c, 1));
        if (twin.accept_string(text) != (at != kEmpty)) fail("accept_string and its bytes differ");
        break;
      }
      case 5: {  // what the budget allows is allowed
        const u32 needed = matcher_.needed(true);
        if (needed == kInf) break;
        std::vector<u32> within(words);
        matcher_.fill(within.data(), needed + in_.below(3));
        for (std::size_t w = 0; w < words; ++w)
          if (within[w] & ~mask[w]) fail("a budget allows what the mask forbids");
        break;
      }
      case 6: {  // the same program without its caches
        const std::shared_ptr<Program> fresh = program().fresh();
        Id at = fresh->advance(guide_->root(), read_);
        if (spelled_ && !arena_counts() && (at == kEmpty || fresh->accepting(at) != matcher_.accepting()))
          fail("a fresh program differs");
        break;
      }
      default: {
        matcher_.complete();
        program().likely(state, 16);
        std::vector<u32> again(words);
        matcher_.fill(again.data());
        same(mask, again, "asked for twice");
      }
    }
    if (matcher_.state() != state || matcher_.history(matcher_.step_count()) != history)
      fail("something changed the matcher");
  }

  bool arena_counts() { return program().arena().has(guide_->root(), kHasToken | kHasRef); }

  u32 pick(const std::vector<u32>& mask, bool any) {
    if (any) return in_.below(vocabulary_.token_count());
    const u32 start = in_.below(vocabulary_.token_count());
    for (u32 i = 0; i < vocabulary_.token_count(); ++i) {
      const u32 t = (start + i) % vocabulary_.token_count();
      if (bit(mask, t)) return t;
    }
    return start;
  }

  bool go_on(const std::vector<u32>& mask) {
    const u32 token = pick(mask, false);
    if (!bit(mask, token)) return false;
    const auto& stops = vocabulary_.stops();
    if (std::find(stops.begin(), stops.end(), token) != stops.end() && !in_.chance(4)) return true;
    if (!matcher_.accept_token(token)) fail("an allowed token is refused");
    if (!vocabulary_.is_text(token)) spelled_ = false;
    read_ += vocabulary_.bytes(token);
    return true;
  }

  // A walk within a promised budget reaches an end, whatever the choices.
  void budgeted() {
    u32 budget;
    try {
      budget = matcher_.needed(true);
      if (budget == kInf || budget > 40) return;
      budget += in_.below(4);
    } catch (const Error& error) {
      if (is_limit(error)) return;
      throw;
    }
    ++totals.walks;
    bool begun = false;
    while (!matcher_.terminated()) {
      std::vector<u32> mask(vocabulary_.words());
      try {
        matcher_.fill(mask.data(), budget);
        begun = true;
        const u32 token = pick(mask, false);
        if (!bit(mask, token)) {
          if (budget == 0 || !has_all_bytes(index_)) return;
          fail("a walk within its budget ends with nothing allowed, " + std::to_string(budget) +
               " tokens left, after " + shown(read_));
        }
        const auto& stops = vocabulary_.stops();
        const bool stop = std::find(stops.begin(), stops.end(), token) != stops.end();
        if (budget == 0 && !stop) fail("no token is left, and one is allowed");
        if (stop) return;
        if (!matcher_.accept_within(token, budget)) fail("a token that the budget allows is refused");
        read_ += vocabulary_.bytes(token);
        --budget;
      } catch (const Error& error) {
        if (is_limit(error)) return;
        if (begun) fail("a walk within its budget ends in " + error.code + " after " + shown(read_));
        return;
      }
    }
  }

  Input& in_;
  u32 index_;
  Vocabulary& vocabulary_;
  std::shared_ptr<Guide> guide_;
  Matcher matcher_;
  Oracle& oracle_;
  int term_;
  std::string read_;     // by tokens that are text
  bool spelled_ = true;  // all of them were
};

}  // namespace

const Counts& counts() { return totals; }

void print_counts() {
  std::fprintf(stderr,
               "inputs %llu, compiled %llu, texts judged %llu, masks %llu, bits %llu, walks within a budget %llu\n",
               static_cast<unsigned long long>(totals.inputs), static_cast<unsigned long long>(totals.compiled),
               static_cast<unsigned long long>(totals.judged), static_cast<unsigned long long>(totals.masks),
               static_cast<unsigned long long>(totals.bits), static_cast<unsigned long long>(totals.walks));
}

void forget() {
  for (u32 i = 0; i < kVocabularies; ++i) vocabulary(i)->clear_cache();
}

void play(const u8* data, std::size_t size) {
  ++totals.inputs;
  Input in(data, size);
  static constexpr std::array<u32, 16> kWhich{0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 3, 3, 3, 1, 1, 4};
  const u8 header = in.byte();
  const u32 which = kWhich[header & 15];
  Limits limits{.max_nodes = 100'000, .fuel = 10'000};
  const u32 few = header >> 4;
  if (few == 1) limits.fuel = 1 + in.below(60);
  if (few == 2) limits.max_nodes = 2 + in.below(600);
  Oracle oracle;
  try {
    auto arena = std::make_shared<Arena>(limits);
    const Made root = Expressions(*arena, oracle, in).run();
    if (explaining)
      std::fprintf(stderr, "# vocabulary %u\nb = _core.Builder(%u, %u)\nroot = %s\n", which, limits.max_nodes,
                   limits.fuel, root.code.c_str());
    auto program = std::make_shared<Program>(arena, root.id);
    auto guide = std::make_shared<Guide>(program, vocabulary(which), symbols(which), in.chance(16) ? 1 : 0);
    ++totals.compiled;
    Game(in, which, guide, oracle, root.term).run();
  } catch (const Error&) {
    // Rejected. Later inputs check that it changed nothing.
  }
}

}  // namespace guiderail::fuzz
