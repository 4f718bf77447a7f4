// Completions in canonical spelling: found along texts, shared between tokens, and searched only as a last resort.
#include "run/canonical.hpp"

#include <algorithm>
#include <bit>

#include "expr/characters.hpp"
#include "run/mask_making.hpp"
#include "run/stand_ins.hpp"

namespace guiderail {

namespace {
constexpr const char* kSpelling = "finding how a text ends in canonical spelling";
}  // namespace

bool CanonicalTexts::completes(const Guide& guide, Id state, const Spelling::State& spelled) {
  std::lock_guard lock(mutex_);
  begin(guide);
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  return lives(state, spelled);
}

u32 CanonicalTexts::needed(const Guide& guide, Id state, const Spelling::State& spelled) {
  std::lock_guard lock(mutex_);
  begin(guide);
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  return promise(state, spelled);
}

// Must precede any reference to the caches, which it may clear.
void CanonicalTexts::begin(const Guide& guide) {
  guide_ = &guide;
  if (!manner_known_) find_manner();
  manner_known_ = true;
  if (needs_.size() + lives_.size() + outlook_of_.size() >= kMostCanonical) {
    lives_.clear();
    needs_.clear();
    shortest_.clear();
    alike_.clear();
    outlook_of_.clear();
    apart_bytes_ = 0;
  }
  bytes_.store(needs_.size() * (sizeof(Key) + sizeof(Need) + 32) + lives_.size() * (sizeof(Key) + 32) +
                   shortest_.size() * 96 + alike_.size() * 32 + outlook_of_.size() * (sizeof(Outlooks::View) + 16) +
                   apart_bytes_ + (outlooks_ ? outlooks_->memory() : 0) + masks_.memory() + bytes_of(mask_),
               std::memory_order_relaxed);
}

void CanonicalTexts::note(const Key& key, const Need& need) {
  const auto [it, fresh] = needs_.try_emplace(key, need);
  if (!fresh && need.tokens < it->second.tokens) it->second = need;
}

// Can each text that contains this one be replaced by one without it, as far as the constraint can tell? `strict`: by
// changing a byte before the last.
bool CanonicalTexts::avoidable(const std::string& text, StandIns& stand_ins, bool& strict) const {
  const auto& texts = spelling_.separate_texts();
  const auto taken = [&](char byte, std::size_t i) {  // may one of them contain this byte after the first i bytes?
    return std::any_of(texts.begin(), texts.end(), [&](const std::string& other) {
      for (std::size_t at = other.find(byte); at != std::string::npos; at = other.find(byte, at + 1))
        if (const std::size_t n = std::min(at, i); other.compare(at - n, n, text, i - n, n) == 0) return true;
      return false;
    });
  };
  const auto replaced = [&](std::size_t i, auto replaces) {
    const u8 byte = static_cast<u8>(text[i]);
    for (unsigned b = 0x20; b < 0x7F && byte < 0x80; ++b)
      if (b != byte && replaces(static_cast<u8>(b), byte) && !taken(static_cast<char>(b), i)) {
        strict = strict || i + 1 < text.size();
        return true;
      }
    return false;
  };
  for (std::size_t i = text.size(); i-- > 0;)
    if (replaced(i, [&](u8 by, u8 byte) { return stand_ins.replaces(by, byte); })) return true;
  for (std::size_t i = 0; i < kUnlikePairs && i + 1 < text.size(); ++i)
    if (replaced(i, [&](u8 by, u8 byte) { return stand_ins.replaces_before(by, byte, static_cast<u8>(text[i + 1])); }))
      return true;
  return false;
}

// Can another byte that is a token replace this one, as far as the constraint can tell?
bool CanonicalTexts::replaceable(u8 byte) const {
  if (spelling_.spells(byte) || byte == 0xC0 || byte == 0xC1 || byte > 0xF4) return true;  // no text has the last
  const auto& classes = program_.arena().byte_classes();
  for (unsigned b = 0; b < 256; ++b)
    if (classes[b] == classes[byte] && spelling_.spells(static_cast<u8>(b))) return true;
  return false;
}

// Can every continuation that the constraint allows be spelled? It suffices that each set of characters that the
// constraint reads has a readable one, and that no text must contain a separate text.
void CanonicalTexts::find_manner() {
  Arena& arena = program_.arena();
  const u64 readable = spelling_.readable();
  const auto can = [&](u32 c) { return (readable >> spelling_.atom(c) & 1) != 0; };
  plain_ = !arena.has_raw_bytes();
  for (unsigned b = 0; b < 256 && plain_; ++b) plain_ = replaceable(static_cast<u8>(b));
  for (u32 c = 0; c < 0x80 && plain_; ++c) plain_ = can(c);
  std::lock_guard lock(arena.mutex);
  if (plain_ && !spelling_.separate_texts().empty()) {
    StandIns stand_ins(arena);
    for (const std::string& text : spelling_.separate_texts()) plain_ = plain_ && avoidable(text, stand_ins, strict_);
  }
  strict_ = strict_ || spelling_.writes_separate();
  if (!plain_ || readable + 1 == u64{1} << spelling_.atoms()) return;
  const auto& atoms = arena.characters().atoms();
  plain_ = !atoms.empty() && std::all_of(atoms.begin(), atoms.end(), [&](const CharSet::Ptr& atom) {
    for (const auto& [from, to] : atom->ranges())
      for (u32 c = from; c <= to; ++c)
        if (can(c)) return true;
    return false;
  });
}

// Represents states with the same completions by one: states that differ only in the text of the key in progress, if
// the key may end in both or in neither.
Id CanonicalTexts::alike(Id state) {
  const Id without = program_.without_text(state);
  if (without == state) return state;
  if (auto it = alike_.find(state); it != alike_.end()) return it->second;
  Id found = without;
  for (const char& end : std::string_view("\"],}")) {
    const Id ended = program_.advance(without, {&end, 1});
    if (ended == without) continue;  // the character is part of the text
    if ((program_.advance(state, {&end, 1}) == kEmpty) == (ended == kEmpty)) continue;
    found = state;
    break;
  }
  return alike_.emplace(state, found).first->second;
}

u32 CanonicalTexts::need(Id state, const Spelling::State& spelled) {
  const Key key = key_of(state, spelled);
  if (auto it = needs_.find(key); it != needs_.end()) return it->second.tokens;
  if (spelled.last >= 0)
    if (const u32 found = need_any(state, spelled.place); found != kInf) {
      note(key, needs_.at(key_of(state, {spelling_.settled(spelled.place), -1})));
      return found;
    }
  u32 found = by_text(state, spelled);
  if (found == kInf) found = by_search(state, spelled);
  note(key, {found});
  return found;
}

// The same, with a promise: the completion may have been found for a place like this one. The places along it are
// noted, so that none needs more than the one before it has left.
u32 CanonicalTexts::promise(Id state, Spelling::State spelled) {
  const u32 found = need(state, spelled);
  for (Need left = needs_.at(key_of(state, spelled)); left.tokens != kInf && left.token != kNoToken;) {
    spelled = spelling_.next(spelled, left.token);
    state = guide_->advance(program_, state, left.token);
    if (state == kEmpty || spelled.dead()) break;
    const Key here = key_of(state, spelled);
    const auto like = needs_.find(left.next), known = needs_.find(here);
    if (like == needs_.end() || (known != needs_.end() && known->second.tokens <= like->second.tokens)) break;
    left = like->second;
    note(here, left);
  }
  return found;
}

// The same for any last token: the next token begins a piece.
u32 CanonicalTexts::need_any(Id state, u32 place) {
  place = spelling_.settled(place);
  const Key key = key_of(state, {place, -1});
  if (auto it = needs_.find(key); it != needs_.end()) return it->second.tokens;
  const u32 found = by_text(state, {place, -1});
  if (found != kInf || place != Spelling::kFresh) note(key, {found});
  return found;
}

// A shortest text that completes a state; empty if none is found. The states along it are stored with their rest of the
// text.
std::string_view CanonicalTexts::shortest(Id state) {
  const Id own = alike(state);
  auto it = shortest_.find(own);
  if (it == shortest_.end()) {
    std::string found;
    program_.shortest(state, kCanonicalBytes, found);
    const auto text = std::make_shared<const std::string>(std::move(found));
    Id at = state;
    for (std::size_t i = 0; i < text->size() && i < kCanonicalPlaces; ++i) {
      at = program_.advance(at, std::string_view(*text).substr(i, 1));
      if (at == kEmpty) break;  // a place that was seen without its texts
      if (const Id place = alike(at); place != own) shortest_.try_emplace(place, Rest{text, i + 1});
    }
    it = shortest_.emplace(own, Rest{text, 0}).first;  // last: a search that fails is made again
  }
  return std::string_view(*it->second.text).substr(it->second.from);
}

// Tries texts that complete the state: a known one after a character, a shortest one, or a shortest one after a
// character that may begin a piece.
u32 CanonicalTexts::by_text(Id state, const Spelling::State& spelled) {
  if (ends(state, spelled)) return 0;
  const bool known = shortest_.contains(alike(state));
  std::string tried;
  for (const bool search : {false, true}) {
    if (search != known) {
      tried = shortest(state);
      if (!tried.empty())
        if (const u32 found = spell(state, spelled, tried); found != kInf) return found;
    }
    for (const char first : std::string_view("\"}],{[ aA0-.\n")) {
      if (!tried.empty() && tried[0] == first) continue;
      const Id next = program_.advance(state, std::string_view(&first, 1));
      if (next == kEmpty || shortest_.contains(alike(next)) == search) continue;
      std::string text(1, first);
      text += shortest(next);
      if (const u32 found = spell(state, spelled, text); found != kInf) return found;
    }
  }
  return kInf;
}

// The tokens that are prefixes of a text, with their lengths, shortest first.
std::vector<std::pair<u32, u32>> CanonicalTexts::beginnings(std::string_view text) const {
  const Vocabulary& vocabulary = spelling_.vocabulary();
  std::vector<std::pair<u32, u32>> found;
  u32 node = 0;
  for (u32 i = 0; i < text.size(); ++i) {
    node = vocabulary.child(node, static_cast<u8>(text[i]));
    if (node == kNoFan) break;
    if (vocabulary.trie().nodes[node].token >= 0)
      found.push_back({static_cast<u32>(vocabulary.trie().nodes[node].token), i + 1});
  }
  return found;
}

// The number of tokens that spell a text from here on; longer tokens are tried first.
u32 CanonicalTexts::spell(Id state, const Spelling::State& spelled, std::string_view text) {
  struct Frame {
    Id state;
    Spelling::State spelled;
    std::size_t from;
    std::vector<std::pair<u32, u32>> open;
    u32 tried = kNoToken;
  };
  std::set<std::tuple<Id, u32, int, std::size_t>> failed;
  std::vector<Frame> frames;
  // The known number of tokens from a place on; kInf: it must be tried.
  const auto known = [&](const Frame& at) {
    if (at.from == text.size()) return ends(at.state, at.spelled) ? 0 : kInf;
    const auto it = needs_.find(key_of(at.state, at.spelled));
    return it == needs_.end() ? kInf : it->second.tokens;
  };
  Frame next{state, spelled, 0, {}};
  for (;;) {
    if (u32 needed = known(next); needed != kInf) {
      Key after = key_of(next.state, next.spelled);
      for (; !frames.empty(); frames.pop_back()) {
        const Key key = key_of(frames.back().state, frames.back().spelled);
        note(key, {++needed, frames.back().tried, after});
        after = key;
      }
      return needed;
    }
    if (next.from < text.size() &&
        failed.insert({next.state, next.spelled.place, next.spelled.last, next.from}).second) {
      next.open = beginnings(text.substr(next.from));
      frames.push_back(std::move(next));
    }
    for (bool found = false; !found;) {
      while (!frames.empty() && frames.back().open.empty()) frames.pop_back();
      if (frames.empty()) return kInf;
      Work::spend();
      Frame& at = frames.back();
      const auto [token, length] = at.open.back();
      at.open.pop_back();
      at.tried = token;
      const Spelling::State after = spelling_.next(at.spelled, token);
      const Id then = after.dead() ? kEmpty : guide_->advance(program_, at.state, token);
      found = then != kEmpty;
      if (found) next = {then, after, at.from + length, {}};
    }
  }
}

// Most tokens asked about are in the last mask, or are proved in the same way.
bool CanonicalTexts::allows(const Guide& guide, const Position& at, u32 token, const Position& next) {
  std::lock_guard lock(mutex_);
  begin(guide);
  if (masked_ == Key{at.state, at.spelled.place, at.spelled.last}) return mask_[token >> 5] >> (token & 31) & 1;
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  if (const auto known = outlook_of_.find(at.state);
      plain_ && known != outlook_of_.end() && known->second.holds_for(token))
    if (spelling_.proves(at.spelled, *spelling_.proof(at.spelled, *known->second.outlook, known->second.reach()),
                         token))
      return true;
  return lives(next.state, next.spelled);
}

const Outlooks::View& CanonicalTexts::view(Id state) {
  if (const auto known = outlook_of_.find(state); known != outlook_of_.end()) return known->second;
  auto made = program_.deep(state, [&] {
    Program::Lock lock(program_);
    Program::Builder builder(program_, lock);
    auto found = outlooks_->of(*builder, state);
    builder.done();
    return found;
  });
  apart_bytes_ += bytes_of(made.apart);
  return outlook_of_.emplace(state, std::move(made)).first->second;
}

// Keeps the tokens that sets prove for all states with the same form; the others go to open_.
void CanonicalTexts::prove(const Guide& guide, Id state, const Spelling::State& spelled, u32* words) {
  const Outlooks::View& view = this->view(state);
  const auto proof = spelling_.proof(spelled, *view.outlook, view.reach());
  std::vector<u32> apart;
  const auto decide = [&] {
    apart.clear();
    for (u32 token : view.apart)
      if (words[token >> 5] >> (token & 31) & 1) {
        apart.push_back(token);
        words[token >> 5] &= ~(1u << (token & 31));
      }
    spelling_.decide(spelled, *proof, strict_, words, open_);
  };
  decide();
  if (!open_.empty() && program_.arena().symbols().empty() && !program_.arena().has(state, kCounting) &&
      !spelling_.unnoted(*proof, open_).empty()) {
    program_.deep(state, [&] {
      Program::Lock lock(program_);
      outlooks_->settle(view, spelled, open_, *proof);
      return true;
    });
    guide.fill(program_, state, {}, words);
    decide();
  }
  open_.insert(open_.end(), apart.begin(), apart.end());
}

// Lists the tokens of a mask. False: there are more.
bool CanonicalTexts::list_few(const u32* words, std::size_t most, std::vector<u32>& out) const {
  const u32 count = spelling_.vocabulary().words();
  out.clear();
  for (u32 w = 0; w < count; ++w)
    for (u32 bits = words[w]; bits != 0; bits &= bits - 1) {
      if (out.size() == most) return false;
      out.push_back(32 * w + static_cast<u32>(std::countr_zero(bits)));
    }
  return true;
}

void CanonicalTexts::restrict(const Guide& guide, Id state, const Spelling::State& spelled, u32 left, u32* words) {
  std::lock_guard lock(mutex_);
  begin(guide);
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  const u32 count = spelling_.vocabulary().words();
  if (!outlooks_) outlooks_.emplace(program_.arena(), spelling_);
  masked_.reset();
  const bool few = plain_ && list_few(words, most_alone(), open_);
  if (plain_ && !few) {
    prove(guide, state, spelled, words);
  } else if (!plain_) {
    spelling_.restrict(spelled, words);
    open_.clear();
    for (u32 w = 0; w < count; ++w)
      for (u32 bits = words[w]; bits != 0; bits &= bits - 1)
        open_.push_back(32 * w + static_cast<u32>(std::countr_zero(bits)));
  }
  const bool costly = !few && !open_.empty();
  for (u32 token : open_) {
    Work::spend();
    const Spelling::State after = spelling_.next(spelled, token);
    const Id next = after.dead() ? kEmpty : guide.advance(program_, state, token);
    const u32 bit = 1u << (token & 31);
    if (next != kEmpty && lives(next, after))
      words[token >> 5] |= bit;
    else
      words[token >> 5] &= ~bit;
  }
  if (left != kInf) return restrict_within(state, spelled, left, words);
  const Key key{state, spelled.place, spelled.last};
  mask_.assign(words, words + count);
  masked_ = key;
  if (!costly || masks_.has(identity(key))) return;
  masks_.add(identity(key), std::make_shared<const Words>(mask_), shared_bytes<Words>() + bytes_of(mask_));
  masks_.forget(kKeptMaskBytes);
}

bool CanonicalTexts::fill_at_once(const Guide& guide, Id state, const Spelling::State& spelled, u32* words) {
  std::lock_guard lock(mutex_);
  begin(guide);
  if (!plain_) return false;
  const MaskEntry& entry = *guide.mask(program_, state);
  if (!entry.base || !entry.specials.empty() || list_few(entry.base->data(), most_alone(), open_)) return false;
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  if (!outlooks_) outlooks_.emplace(program_.arena(), spelling_);
  const Outlooks::View& view = this->view(state);
  if (!view.apart.empty()) return false;
  const auto proof = spelling_.proof(spelled, *view.outlook, view.reach());
  if (!spelling_.decide_again(spelled, *proof, entry, strict_, words, open_) || !open_.empty()) return false;
  masked_.reset();
  return true;
}

bool CanonicalTexts::recall(Id state, const Spelling::State& spelled, u32* words) {
  std::lock_guard lock(mutex_);
  const Key key{state, spelled.place, spelled.last};
  const auto* known = masks_.find(identity(key));
  if (!known) return false;
  mask_ = **known;
  masked_ = key;
  std::copy(mask_.begin(), mask_.end(), words);
  return true;
}

// The first token of the known completion of a state; kNoToken: none is known.
u32 CanonicalTexts::witness(Id state, const Spelling::State& spelled) {
  for (const Key& key : {key_of(state, spelled), key_of(state, {spelling_.settled(spelled.place), -1})})
    if (auto it = needs_.find(key); it != needs_.end() && it->second.token != kNoToken) return it->second.token;
  return kNoToken;
}

// A completion that begins a piece serves all tokens that lead to the same state and place. If many tokens remain, no
// further completions are searched. So a token may be removed although it has a completion, but never the first token
// of the known completion of this state.
void CanonicalTexts::restrict_within(Id state, const Spelling::State& spelled, u32 left, u32* words) {
  const u32 first = promise(state, spelled) <= left + 1 ? witness(state, spelled) : kNoToken;
  const u32 count = spelling_.vocabulary().words();
  Words others(words, words + count);
  std::vector<std::tuple<u32, Id, Spelling::State>> open;
  const auto decide = [&](u32 token, Id next) {
    others[token >> 5] &= ~(1u << (token & 31));
    if (token == first) return;
    Work::spend();
    const Spelling::State after = spelling_.next(spelled, token);
    const auto known = needs_.find(key_of(next, after));
    if (known != needs_.end() ? known->second.tokens > left : need_any(next, after.place) > left)
      open.push_back({token, next, after});
  };
  std::vector<std::pair<u32, Id>> outcomes;
  {
    std::lock_guard lock(program_.arena().mutex);
    outcomes = outlooks_->outcomes(state, words);
  }
  for (const auto& [token, next] : outcomes) decide(token, next);
  for (u32 w = 0; w < count; ++w)
    for (u32 bits = others[w]; bits != 0; bits &= bits - 1) {
      const u32 token = 32 * w + static_cast<u32>(std::countr_zero(bits));
      decide(token, guide_->advance(program_, state, token));
    }
  for (const auto& [token, next, after] : open)
    if (open.size() > kManyOpen || by_text(next, after) > left) words[token >> 5] &= ~(1u << (token & 31));
}

}  // namespace guiderail
