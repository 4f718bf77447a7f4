// Completions in canonical spelling: found along texts, shared between tokens, searched for last.
#include "run/spelled.hpp"

#include <algorithm>
#include <bit>

namespace guiderail {

namespace {
constexpr const char* kSpelling = "finding how a text ends in canonical spelling";
}  // namespace

u32 SpelledTexts::needed(const Guide& guide, Id state, const Spelling::State& spelled) {
  std::lock_guard lock(mutex_);
  guide_ = &guide;
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  return need(state, spelled);
}

void SpelledTexts::note(const Key& key, u32 needed) {
  if (needs_.size() >= kMostSpelled) {
    needs_.clear();
    shortest_.clear();
    plain_.clear();
  }
  const auto [it, fresh] = needs_.try_emplace(key, needed);
  if (!fresh) it->second = std::min(it->second, needed);
  bytes_.store(needs_.size() * (sizeof(Key) + 32) + shortest_.size() * 96 + plain_.size() * 64,
               std::memory_order_relaxed);
}

u32 SpelledTexts::need(Id state, const Spelling::State& spelled) {
  const Key key{state, spelled.place, spelled.last};
  if (auto it = needs_.find(key); it != needs_.end()) return it->second;
  if (spelled.last >= 0)
    if (const u32 found = need_any(state, spelled.place); found != kInf) return found;
  u32 found = by_text(state, spelled);
  if (found == kInf) found = by_search(state, spelled);
  note(key, found);
  return found;
}

// The same whatever the last token was: the next begins a piece.
u32 SpelledTexts::need_any(Id state, u32 place) {
  const Key key{state, place, -1};
  if (auto it = needs_.find(key); it != needs_.end()) return it->second;
  const u32 found = by_text(state, {place, -1});
  if (found != kInf || place != Spelling::kFresh) note(key, found);
  return found;
}

// A shortest text that completes a state; empty where none is found. Its places know their rest of it.
std::string_view SpelledTexts::shortest(Id state) {
  const auto [it, fresh] = shortest_.try_emplace(state);
  Rest& rest = it->second;
  if (fresh) {
    std::string found;
    program_.shortest(state, kSpelledBytes, found);
    const auto text = std::make_shared<const std::string>(std::move(found));
    rest = {text, 0};
    Id at = state;
    for (std::size_t i = 0; i < text->size() && i < kSpelledPlaces; ++i) {
      at = program_.advance(at, std::string_view(*text).substr(i, 1));
      if (at == kEmpty) break;  // a place that was seen without its texts
      shortest_.try_emplace(at, Rest{text, i + 1});
    }
  }
  return std::string_view(*rest.text).substr(rest.from);
}

// Along a text that completes the state: one that is known after a character, a shortest one, or such after a character
// in which a piece may begin.
u32 SpelledTexts::by_text(Id state, const Spelling::State& spelled) {
  if (ends(state, spelled)) return 0;
  const bool known = shortest_.contains(state);
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
      if (next == kEmpty || shortest_.contains(next) == search) continue;
      std::string text(1, first);
      text += shortest(next);
      if (const u32 found = spell(state, spelled, text); found != kInf) return found;
    }
  }
  return kInf;
}

// The tokens that a text begins with, shorter ones first, and how long they are.
std::vector<std::pair<u32, u32>> SpelledTexts::beginnings(std::string_view text) const {
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

// The tokens of one text from here on, and how many they are; longer ones are tried first.
u32 SpelledTexts::spell(Id state, const Spelling::State& spelled, std::string_view text) {
  struct Frame {
    Id state;
    Spelling::State spelled;
    std::size_t from;
    std::vector<std::pair<u32, u32>> open;
  };
  std::set<std::tuple<Id, u32, int, std::size_t>> failed;
  std::vector<Frame> frames;
  // What is needed from a place on, where that is known; kInf: it is to be tried.
  const auto known = [&](const Frame& at) {
    if (at.from == text.size()) return ends(at.state, at.spelled) ? 0 : kInf;
    const auto it = needs_.find({at.state, at.spelled.place, at.spelled.last});
    return it == needs_.end() ? kInf : it->second;
  };
  Frame next{state, spelled, 0, {}};
  for (;;) {
    if (u32 needed = known(next); needed != kInf) {
      for (; !frames.empty(); frames.pop_back())
        note({frames.back().state, frames.back().spelled.place, frames.back().spelled.last}, ++needed);
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
      const Spelling::State after = spelling_.next(at.spelled, token);
      const Id then = after.dead() ? kEmpty : guide_->advance(program_, at.state, token);
      found = then != kEmpty;
      if (found) next = {then, after, at.from + length, {}};
    }
  }
}

u32 SpelledTexts::by_search(Id state, const Spelling::State& spelled) {
  std::unordered_set<Key, Hasher> seen;
  u32 fuel = kSpelledFuel;
  if (search(state, spelled, fuel, seen)) return needs_.at({state, spelled.place, spelled.last});
  if (fuel > 0)  // all that can be reached was seen
    for (const Key& key : seen) note(key, kInf);
  return kInf;
}

bool SpelledTexts::search(Id state, const Spelling::State& spelled, u32& fuel, std::unordered_set<Key, Hasher>& seen) {
  const Key key{state, spelled.place, spelled.last};
  if (seen.size() >= kSpelledDepth) fuel = 0;
  if (fuel == 0 || !seen.insert(key).second) return false;
  Words mask(spelling_.vocabulary().words());
  guide_->fill(program_, state, {}, mask.data());
  spelling_.restrict(spelled, mask.data());
  std::vector<std::pair<Id, Spelling::State>> open;
  for (u32 w = 0; w < mask.size(); ++w)
    for (u32 bits = mask[w]; bits != 0; bits &= bits - 1) {
      if (fuel == 0) return false;
      --fuel;
      Work::spend();
      const u32 token = 32 * w + static_cast<u32>(std::countr_zero(bits));
      const Spelling::State after = spelling_.next(spelled, token);
      const Id next = after.dead() ? kEmpty : guide_->advance(program_, state, token);
      if (next == kEmpty) continue;
      const auto known = needs_.find({next, after.place, after.last});
      u32 rest = known != needs_.end() ? known->second : kInf;
      if (known == needs_.end()) {
        rest = need_any(next, after.place);
        if (rest == kInf) rest = by_text(next, after);
        if (rest != kInf)
          note({next, after.place, after.last}, rest);
        else
          open.push_back({next, after});
      }
      if (rest == kInf) continue;
      note(key, rest + 1);
      return true;
    }
  for (const auto& [next, after] : open)
    if (search(next, after, fuel, seen)) {
      note(key, needs_.at({next, after.place, after.last}) + 1);
      return true;
    }
  return false;
}

// Do all characters that begin with so many bytes less lead to this state, or nowhere?
bool SpelledTexts::returns(Id state, Id to, int bytes) {
  if (bytes == 0) return state == to;
  std::array<bool, 256> seen{};
  for (unsigned b = 0x80; b < 0xC0; ++b) {
    const u8 kind = program_.arena().byte_class(static_cast<u8>(b));
    if (std::exchange(seen[kind], true)) continue;
    const char c = static_cast<char>(b);
    const Id next = program_.advance(state, std::string_view(&c, 1));
    if (next != kEmpty && !returns(next, to, bytes - 1)) return false;
  }
  return true;
}

const SpelledTexts::Plain& SpelledTexts::plain(Id state) {
  if (auto it = plain_.find(state); it != plain_.end()) return it->second;
  std::array<Id, 256> by_kind;
  by_kind.fill(kUnknown);
  ByteSet loop, open;
  std::size_t loops = 0, opens = 0;
  for (unsigned b = 0x20; b < 0x7F; ++b) {
    const char c = static_cast<char>(b);
    Id& next = by_kind[program_.arena().byte_class(static_cast<u8>(b))];
    if (next == kUnknown) next = program_.advance(state, std::string_view(&c, 1));
    if (next == state) loop.add(static_cast<u8>(b)), ++loops;
    if (next != kEmpty && c != '"' && c != '\\') open.add(static_cast<u8>(b)), ++opens;
  }
  Plain found;
  found.loops = loops >= kPlainCharacters;
  found.counts = !found.loops && opens >= kAllCharacters;
  if (found.loops) {
    bool beyond = true;
    for (unsigned b = 0xC2; b < 0xF5 && beyond; ++b) {
      const u8 kind = program_.arena().byte_class(static_cast<u8>(b));
      if (by_kind[kind] != kUnknown) continue;
      const char c = static_cast<char>(b);
      const Id next = by_kind[kind] = program_.advance(state, std::string_view(&c, 1));
      if (next != kEmpty) beyond = returns(next, state, b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3);
    }
    found.tokens = spelling_.made_of(loop, beyond);
  }
  if (found.counts) found.tokens = spelling_.made_of(open, false);
  return plain_.emplace(state, found).first->second;
}

// Leaves those of these tokens after which there is a completion that begins a piece, whichever it was.
void SpelledTexts::prove(Id state, const Spelling::State& spelled, u32 left, Words& tokens) {
  const bool loops = plain(state).loops;
  const auto& after = spelling_.after(spelled);
  std::vector<Id> counted;  // after so many characters more
  for (u32 n = 0; !loops && n < kCounted; ++n) {
    const Id before = counted.empty() ? state : counted.back();
    counted.push_back(before == kEmpty ? kEmpty : program_.advance(before, "a"));
  }
  for (const auto& [place, shapes] : after) {
    const auto completes = [&, at = place](Id next) {
      const u32 rest = next == kEmpty ? kInf : need_any(next, at);
      return rest <= left && rest != kInf;
    };
    if (loops) {
      if (!completes(state)) spelling_.clear(shapes, 0, tokens);
      continue;
    }
    if (completes(counted.front()) && completes(counted.back())) continue;
    for (u32 n = 1; n <= kCounted; ++n)
      if (!completes(counted[n - 1])) spelling_.clear(shapes, n, tokens);
  }
  if (!loops) spelling_.clear_longer(kCounted, tokens);
  spelling_.clear_open(spelled, tokens);
}

void SpelledTexts::restrict(const Guide& guide, Id state, const Spelling::State& spelled, u32 left, u32* words) {
  std::lock_guard lock(mutex_);
  guide_ = &guide;
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  const std::size_t count = spelling_.vocabulary().words();
  std::size_t set = 0;
  for (std::size_t w = 0; w < count; ++w) set += static_cast<std::size_t>(std::popcount(words[w]));
  Words proved;
  if (set > kManySpelled)
    if (const Plain& of = plain(state); of.tokens && (of.loops || set > kManyCounted)) {
      proved = *of.tokens;
      prove(state, spelled, left, proved);
    }
  for (u32 w = 0; w < count; ++w)
    for (u32 bits = words[w] & ~(proved.empty() ? 0 : proved[w]); bits != 0; bits &= bits - 1) {
      const u32 token = 32 * w + static_cast<u32>(std::countr_zero(bits));
      Work::spend();
      const Spelling::State after = spelling_.next(spelled, token);
      const Id next = after.dead() ? kEmpty : guide_->advance(program_, state, token);
      const u32 rest = next == kEmpty ? kInf : need(next, after);
      if (rest == kInf || rest > left) words[w] &= ~(bits & (~bits + 1));
    }
}

// -- guides
// ------------------------------------------------------------------------------------------------------------
void Guide::require(std::shared_ptr<Spelling> spelling) {
  if (&spelling->vocabulary() != vocabulary_.get())
    throw Error("program-bound", "this spelling serves another vocabulary");
  spelling_ = std::move(spelling);
  const std::shared_ptr<Program> program = this->program();
  if (needed(*program, Position{root_}, true) == kInf)
    throw Error("unsatisfiable",
                "no text of the constraint was found that the tokenizer spells as tokens of its own; leave canonical "
                "out, or let the constraint match more");
}

SpelledTexts& Guide::spelled(Program& program) const {
  std::lock_guard lock(mutex_);
  if (!program.spelled_) program.spelled_ = std::make_shared<SpelledTexts>(program, spelling_);
  return *program.spelled_;
}

bool Guide::may_end(Program& program, const Position& at) const {
  return program.accepting(at.state) && (!spelling_ || spelling_->may_end(at.spelled));
}

Position Guide::advance(Program& program, const Position& at, u32 token) const {
  if (!spelling_) return {advance(program, at.state, token)};
  const Spelling::State spelled = spelling_->next(at.spelled, token);
  if (spelled.dead()) return {};
  const Id next = advance(program, at.state, token);
  if (next == kEmpty || this->spelled(program).needed(*this, next, spelled) == kInf) return {};
  return {next, spelled};
}

bool Guide::fill(Program& program, const Position& at, const std::vector<u32>& stops, u32* out) const {
  if (!spelling_) return fill(program, at.state, stops, out);
  return fill_within(program, at, stops, kInf, out);
}

bool Guide::fill_within(Program& program, const Position& at, const std::vector<u32>& stops, u32 budget,
                        u32* out) const {
  if (!spelling_) return fill_within(program, at.state, stops, budget, out);
  fill(program, at.state, {}, out);
  spelling_->restrict(at.spelled, out);
  if (budget != kInf) {
    const u32 needed = this->needed(program, at, false);
    if (needed > budget)
      throw Error("budget-too-small", "completing the text takes " + std::to_string(needed) +
                                          " tokens or more as far as was found, but the budget is " +
                                          std::to_string(budget));
  }
  if (budget == 0)
    std::memset(out, 0, vocabulary_->words() * 4);
  else
    spelled(program).restrict(*this, at.state, at.spelled, budget == kInf ? kInf : budget - 1, out);
  if (may_end(program, at))
    for (u32 s : stops) out[s >> 5] |= 1u << (s & 31);
  return true;
}

u32 Guide::needed(Program& program, const Position& at, bool thorough) const {
  if (!spelling_) return needed(program, at.state, thorough);
  return may_end(program, at) ? 0 : spelled(program).needed(*this, at.state, at.spelled);
}

}  // namespace guiderail
