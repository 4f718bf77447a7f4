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
  make_room();
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  return need(state, spelled);
}

// Before anything refers to what is known.
void SpelledTexts::make_room() {
  if (needs_.size() >= kMostSpelled) {
    needs_.clear();
    shortest_.clear();
    leads_.clear();
    alike_.clear();
    proofs_.clear();
  }
  if (proofs_.size() >= kMostProofs) proofs_.clear();
}

void SpelledTexts::note(const Key& key, u32 needed) {
  const auto [it, fresh] = needs_.try_emplace(key, needed);
  if (!fresh) it->second = std::min(it->second, needed);
  bytes_.store(needs_.size() * (sizeof(Key) + 32) + shortest_.size() * 96 + leads_.size() * (sizeof(Lead) + 32) +
                   alike_.size() * 32 + proofs_.size() * 8 * spelling_.vocabulary().words(),
               std::memory_order_relaxed);
}

// States with the same completions share what is known: those that differ only in the text of the key that is being
// written, if the key may end in both or in neither.
Id SpelledTexts::alike(Id state) {
  const Id without = program_.without_text(state);
  if (without == state) return state;
  if (auto it = alike_.find(state); it != alike_.end()) return it->second;
  Id found = without;
  for (const char& end : std::string_view("\"],}"))
    if ((program_.advance(state, {&end, 1}) == kEmpty) != (program_.advance(without, {&end, 1}) == kEmpty))
      found = state;
  return alike_.emplace(state, found).first->second;
}

u32 SpelledTexts::need(Id state, const Spelling::State& spelled) {
  const Key key = key_of(state, spelled);
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
  place = spelling_.settled(place);
  const Key key = key_of(state, {place, -1});
  if (auto it = needs_.find(key); it != needs_.end()) return it->second;
  const u32 found = by_text(state, {place, -1});
  if (found != kInf || place != Spelling::kFresh) note(key, found);
  return found;
}

// A shortest text that completes a state; empty where none is found. Its places know their rest of it.
std::string_view SpelledTexts::shortest(Id state) {
  const Id own = alike(state);
  auto it = shortest_.find(own);
  if (it == shortest_.end()) {
    std::string found;
    program_.shortest(state, kSpelledBytes, found);
    const auto text = std::make_shared<const std::string>(std::move(found));
    Id at = state;
    for (std::size_t i = 0; i < text->size() && i < kSpelledPlaces; ++i) {
      at = program_.advance(at, std::string_view(*text).substr(i, 1));
      if (at == kEmpty) break;  // a place that was seen without its texts
      if (const Id place = alike(at); place != own) shortest_.try_emplace(place, Rest{text, i + 1});
    }
    it = shortest_.emplace(own, Rest{text, 0}).first;  // last: a search that fails is made again
  }
  return std::string_view(*it->second.text).substr(it->second.from);
}

// Along a text that completes the state: one that is known after a character, a shortest one, or such after a character
// in which a piece may begin.
u32 SpelledTexts::by_text(Id state, const Spelling::State& spelled) {
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
    const auto it = needs_.find(key_of(at.state, at.spelled));
    return it == needs_.end() ? kInf : it->second;
  };
  Frame next{state, spelled, 0, {}};
  for (;;) {
    if (u32 needed = known(next); needed != kInf) {
      for (; !frames.empty(); frames.pop_back()) note(key_of(frames.back().state, frames.back().spelled), ++needed);
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
  if (search(state, spelled, fuel, seen)) return needs_.at(key_of(state, spelled));
  if (fuel > 0)  // all that can be reached was seen
    for (const Key& key : seen) note(key, kInf);
  return kInf;
}

bool SpelledTexts::search(Id state, const Spelling::State& spelled, u32& fuel, std::unordered_set<Key, Hasher>& seen) {
  const Key key = key_of(state, spelled);
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
      const auto known = needs_.find(key_of(next, after));
      u32 rest = known != needs_.end() ? known->second : kInf;
      if (known == needs_.end()) {
        rest = need_any(next, after.place);
        if (rest == kInf) rest = by_text(next, after);
        if (rest != kInf)
          note(key_of(next, after), rest);
        else
          open.push_back({next, after});
      }
      if (rest == kInf) continue;
      note(key, rest + 1);
      return true;
    }
  for (const auto& [next, after] : open)
    if (search(next, after, fuel, seen)) {
      note(key, needs_.at(key_of(next, after)) + 1);
      return true;
    }
  return false;
}

// Do all ends of characters lead to this state, or nowhere; and do all lead anywhere?
void SpelledTexts::beyond(Id state, Id to, int bytes, unsigned first, unsigned last, Beyond& out) {
  std::array<bool, 256> seen{};
  for (unsigned b = first; b <= last && out.returns; ++b) {
    if (std::exchange(seen[program_.arena().byte_class(static_cast<u8>(b))], true)) continue;
    const char c = static_cast<char>(b);
    const Id next = program_.advance(state, std::string_view(&c, 1));
    if (next == kEmpty)
      out.any = false;
    else if (bytes > 1)
      beyond(next, to, bytes - 1, 0x80, 0xBF, out);
    else
      out.returns = out.returns && alike(next) == to;
  }
}

SpelledTexts::Beyond SpelledTexts::beyond_ascii(Id state, Id to) {
  struct Kind {
    unsigned first, last, low, high;  // first bytes; second bytes
    int bytes;
  };
  static constexpr Kind kinds[] = {{0xC2, 0xDF, 0x80, 0xBF, 1}, {0xE0, 0xE0, 0xA0, 0xBF, 2},
                                   {0xE1, 0xEC, 0x80, 0xBF, 2}, {0xED, 0xED, 0x80, 0x9F, 2},
                                   {0xEE, 0xEF, 0x80, 0xBF, 2}, {0xF0, 0xF0, 0x90, 0xBF, 3},
                                   {0xF1, 0xF3, 0x80, 0xBF, 3}, {0xF4, 0xF4, 0x80, 0x8F, 3}};
  Beyond out;
  for (const Kind& kind : kinds) {
    std::array<bool, 256> seen{};
    for (unsigned b = kind.first; b <= kind.last && out.returns; ++b) {
      if (std::exchange(seen[program_.arena().byte_class(static_cast<u8>(b))], true)) continue;
      const char c = static_cast<char>(b);
      const Id next = program_.advance(state, std::string_view(&c, 1));
      if (next == kEmpty)
        out.any = false;
      else
        beyond(next, to, kind.bytes, kind.low, kind.high, out);
    }
  }
  return out;
}

const SpelledTexts::Lead& SpelledTexts::lead(Id state) {
  const Id own = alike(state);
  if (auto it = leads_.find(own); it != leads_.end()) return it->second;
  std::array<Id, 256> by_kind;
  by_kind.fill(kUnknown);
  std::unordered_map<Id, ByteSet> reached;
  for (unsigned b = 0x20; b < 0x7F; ++b) {
    const char c = static_cast<char>(b);
    Id& next = by_kind[program_.arena().byte_class(static_cast<u8>(b))];
    if (next == kUnknown)
      if (next = program_.advance(state, std::string_view(&c, 1)); next != kEmpty) next = alike(next);
    if (next != kEmpty) reached[next].add(static_cast<u8>(b));
  }
  Lead found;
  Id to = kEmpty;
  for (const auto& [next, set] : reached)
    if (set.count() > found.ascii.count() || (set.count() == found.ascii.count() && next < to))
      found.ascii = set, to = next;
  if (found.ascii.count() >= static_cast<int>(kLeadCharacters)) {
    found.by = static_cast<char>(found.ascii.has('a') ? 'a' : found.ascii.lowest());
    found.to = to;
    found.loops = to == own;
    const Beyond beyond = beyond_ascii(state, to);
    found.beyond = beyond.returns;
    found.any = beyond.returns && beyond.any;
    found.escapes = !found.ascii.has('\\');
    for (const std::string_view text : {"\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"}) {
      const Id next = program_.advance(state, text);
      found.escapes = found.escapes && (next == kEmpty || alike(next) == to);
    }
  }
  return leads_.emplace(own, found).first->second;
}

// Beginnings that lead to states of their own, as those of names do, and the characters after which the text is where
// others lead at once.
void SpelledTexts::branch(Id state, Id to, Spelling::Characters& of) {
  std::vector<std::pair<std::string, Id>> open{{"", state}};
  while (!open.empty() && of.branches.size() < kCounted * kCounted) {
    const auto [text, at] = std::move(open.back());
    open.pop_back();
    const Lead next = lead(at);
    if (next.to != to) continue;
    if (!text.empty()) of.branches[text] = next.ascii;
    if (text.size() < kCounted)
      for (unsigned b = 0x20; b < 0x7F; ++b) {
        const char c = static_cast<char>(b);
        if (next.ascii.has(static_cast<u8>(b)) || c == '"' || c == '\\') continue;
        if (const Id after = program_.advance(at, {&c, 1}); after != kEmpty) open.push_back({text + c, after});
      }
  }
}

// Those tokens after which there is a completion that begins a piece, whatever the token was: of characters that lead
// on and on to states of their own, or back.
void SpelledTexts::prove(Id state, const Spelling::State& spelled, u32 left, Proof& out) {
  out.done.assign(spelling_.vocabulary().words(), 0);
  if (!lead(state).by) return;
  Spelling::Characters of;
  std::vector<Id> after{state};  // so many characters
  bool any = true, loops = false;
  while (!loops && after.size() <= kCounted) {
    const Lead next = lead(after.back());
    if (!next.by) break;
    if (after.size() == 1) {
      of = {next.ascii, next.ascii, {}, next.beyond, next.escapes};
    } else {
      if (after.size() == 2) of.others = next.ascii;
      for (std::size_t i = 0; i < of.others.words.size(); ++i) of.others.words[i] &= next.ascii.words[i];
      of.beyond = of.beyond && next.beyond;
      of.escapes = of.escapes && next.escapes;
    }
    any = any && next.any;
    loops = next.loops;
    after.push_back(program_.advance(after.back(), std::string_view(&next.by, 1)));
  }
  const u32 most = static_cast<u32>(after.size()) - 1;
  if (loops && most > 1 && alike(after[1]) == alike(after[most])) branch(state, alike(after[1]), of);
  // How many characters may lead to a place.
  const auto complete = [&](u32 place) {
    for (u32 n = 1; n <= most; ++n) {
      const u32 rest = need_any(after[n], place);
      if (rest == kInf || rest > left) return n - 1;
      out.most = std::max(out.most, rest);
    }
    return most;
  };
  const std::shared_ptr<const Spelling::Made> made = spelling_.made_of(of);
  out.done = made->whole;
  if (!loops) spelling_.clear_longer(most, out.done);
  for (const auto& [place, shapes] : spelling_.after(spelled))
    if (const u32 n = complete(place); n < most) spelling_.clear(shapes, n, out.done);
  if (any && loops) {
    const Spelling::Finish& finish = spelling_.finish(spelled);
    if (std::all_of(finish.places.begin(), finish.places.end(), [&](u32 place) { return complete(place) == most; }))
      for (std::size_t w = 0; w < out.done.size(); ++w) out.done[w] |= finish.tokens[w] & made->begun[w];
  }
  spelling_.clear_open(spelled, out.done);
}

SpelledTexts::Proof& SpelledTexts::proof(Id state, const Spelling::State& spelled) {
  const Key key = key_of(state, {spelled.place, -1});
  if (auto it = proofs_.find(key); it != proofs_.end()) return it->second;
  Proof made;
  prove(state, spelled, kInf, made);
  made.tried.assign(made.done.size(), 0);
  return proofs_.insert_or_assign(key, std::move(made)).first->second;
}

// Is there a completion after this token whether it begins a piece or not?
bool SpelledTexts::is_proved(Id state, const Spelling::State& spelled, u32 token, Id next, Proof& of) {
  const u32 word = token >> 5, bit = 1u << (token & 31);
  if (of.done[word] & bit) return true;
  if (of.tried[word] & bit) return false;
  if (next == kUnknown) next = guide_->advance(program_, state, token);
  u32 most = 0;
  bool some = false, all = next != kEmpty;
  if (all)
    for (const u32 place : spelling_.ways(spelled.place, token)) {
      if (place == Spelling::kDead) continue;
      const u32 rest = need_any(next, place);
      if (all = rest != kInf; !all) break;
      most = std::max(most, rest);
      some = true;
    }
  of.tried[word] |= bit;
  if (!some || !all) return false;
  of.most = std::max(of.most, most);
  of.done[word] |= bit;
  return true;
}

bool SpelledTexts::allows(const Guide& guide, const Position& at, u32 token, const Position& next) {
  std::lock_guard lock(mutex_);
  guide_ = &guide;
  make_room();
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  return is_proved(at.state, at.spelled, token, next.state, proof(at.state, at.spelled)) ||
         need(next.state, next.spelled) != kInf;
}

void SpelledTexts::restrict(const Guide& guide, Id state, const Spelling::State& spelled, u32 left, u32* words) {
  std::lock_guard lock(mutex_);
  guide_ = &guide;
  make_room();
  const Work::Step step(program_.search_work(), kSpelling, program_.step_work());
  const std::size_t count = spelling_.vocabulary().words();
  Proof within;  // so many tokens
  Proof* known = &proof(state, spelled);
  const bool all = known->most <= left;
  if (!all) {
    prove(state, spelled, left, within);
    known = &within;
  }
  for (u32 w = 0; w < count; ++w)
    for (u32 bits = words[w] & ~known->done[w]; bits != 0; bits &= bits - 1) {
      const u32 token = 32 * w + static_cast<u32>(std::countr_zero(bits));
      Work::spend();
      if (all && left == kInf && is_proved(state, spelled, token, kUnknown, *known)) continue;
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
  const Position next{advance(program, at.state, token), spelled};
  return next.state != kEmpty && this->spelled(program).allows(*this, at, token, next) ? next : Position{};
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
