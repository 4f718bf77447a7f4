// Pre-tokenizers: ordered threads (a Pike machine with the priorities of backtracking) and guesses about ends of
// pieces.
#include "vocab/pretokens.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/thresholds.hpp"

namespace guiderail {

namespace {
// The length of a character with this first byte; 0: there is none.
u32 length_of(u8 first) {
  return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}
// Are these bytes a character, or a prefix of one?
bool begins_character(std::string_view bytes) {
  const u32 length = length_of(static_cast<u8>(bytes[0]));
  if (bytes.size() > length) return false;
  for (std::size_t i = 1; i < bytes.size(); ++i)
    if (!is_continuation(static_cast<u8>(bytes[i]))) return false;
  if (bytes.size() < 2) return length != 0;
  const u8 first = static_cast<u8>(bytes[0]), second = static_cast<u8>(bytes[1]);
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  return first != 0xF4 || second < 0x90;
}
u32 code_point(std::string_view bytes) {
  if (bytes.size() == 1) return static_cast<u8>(bytes[0]);
  u32 out = static_cast<u8>(bytes[0]) & (0xFFu >> (bytes.size() + 1));
  for (std::size_t i = 1; i < bytes.size(); ++i) out = out << 6 | (static_cast<u8>(bytes[i]) & 0x3F);
  return out;
}
}  // namespace

Pretokens::Pretokens(std::vector<Level> levels, std::string atoms, u64 broken)
    : levels_(std::move(levels)), atoms_(std::move(atoms)), broken_(broken) {
  if (atoms_.size() != 0x110000) throw Error("bad-range", "a pre-tokenizer needs the atom of each code point");
  for (const Level& level : levels_)
    for (const Instruction& i : level.program)
      if (level.start >= level.program.size() || (i.op != Op::Match && i.a >= level.program.size()) ||
          (i.op == Op::Split && i.b >= level.program.size()))
        throw Error("bad-range", "an instruction of a pre-tokenizer has no valid target");
  for (const char atom : atoms_) atom_count_ = std::max(atom_count_, u32{static_cast<u8>(atom)} + 1);
  if (levels_.empty()) throw Error("bad-range", "a pre-tokenizer needs at least one level");
  intern({});
  Config fresh;
  fresh.levels.resize(levels_.size());
  intern({std::move(fresh)});
}

// Adds the threads that read a character, in order. True: a thread matches, so the threads after it are dropped.
bool Pretokens::follow(const Level& level, u32 at, u32 atom, std::vector<bool>& seen, Threads& out) const {
  if (seen[at]) return false;
  seen[at] = true;
  const Instruction& i = level.program[at];
  switch (i.op) {
    case Op::Match: return true;
    case Op::Split: return follow(level, i.a, atom, seen, out) || follow(level, i.b, atom, seen, out);
    case Op::Next: return (i.atoms >> atom & 1) && follow(level, i.a, atom, seen, out);
    case Op::Char:
      if (atom != kEnd && (i.atoms >> atom & 1) && std::find(out.begin(), out.end(), i.a) == out.end())
        out.push_back(i.a);
  }
  return false;
}

bool Pretokens::advance(const Level& level, const Threads& from, u32 atom, Threads& out) const {
  std::vector<bool> seen(level.program.size());
  out.clear();
  for (u32 at : from)
    if (follow(level, at, atom, seen, out)) return true;
  return false;
}

// Does a thread match, whatever comes?
bool Pretokens::always_matches(const Level& level, u32 at) const {
  std::vector<bool> seen(level.program.size());
  std::vector<u32> open{at};
  while (!open.empty()) {
    const Instruction& i = level.program[open.back()];
    const bool fresh = !seen[open.back()];
    seen[open.back()] = true;
    open.pop_back();
    if (i.op == Op::Match) return true;
    if (i.op == Op::Split && fresh) open.insert(open.end(), {i.a, i.b});
  }
  return false;
}

// Has a thread matched that must not?
bool Pretokens::is_lost(const Config& config) const {
  for (u32 level = 0; level < levels_.size(); ++level)
    for (u32 at : config.levels[level].never)
      if (always_matches(levels_[level], at)) return true;
  return false;
}

// The atoms of the characters with this prefix.
u64 Pretokens::possible(const std::string& begun) {
  if (auto it = possible_.find(begun); it != possible_.end()) return it->second;
  const u32 length = length_of(static_cast<u8>(begun[0]));
  if (begun.size() >= length) return 0;  // no character has it
  const u32 left = length - static_cast<u32>(begun.size());
  std::string first = begun, last = begun;
  first.append(left, '\x80');
  last.append(left, '\xBF');
  static constexpr u32 kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const u32 from = std::max(code_point(first), kLeast[length]), to = std::min(code_point(last), 0x10FFFFu);
  u64 atoms = 0;
  for (u32 c = from; c <= to; ++c)
    if (c < 0xD800 || c > 0xDFFF) atoms |= u64{1} << atom(c);
  return possible_.emplace(begun, atoms & broken_).first->second;
}

// The next character belongs to the piece.
bool Pretokens::go_on(u32 level, Piece& piece, u32 atom) const {
  const Level& of = levels_[level];
  Threads next;
  if (advance(of, piece.never, atom, next)) return false;
  piece.never = std::move(next);
  if (piece.kind == Kind::Gap) {
    advance(of, {of.start}, atom, next);  // no match may begin here
    for (u32 at : next) piece.never.push_back(at);
    std::sort(piece.never.begin(), piece.never.end());
    piece.never.erase(std::unique(piece.never.begin(), piece.never.end()), piece.never.end());
    return true;
  }
  advance(of, piece.threads, atom, next);
  piece.threads = std::move(next);
  return !piece.threads.empty();
}

// The piece ends before this character.
bool Pretokens::end(u32 level, Piece& piece, u32 atom) const {
  const Level& of = levels_[level];
  Threads next, ahead;
  if (advance(of, piece.never, atom, next)) return false;
  if (piece.kind == Kind::Match && !advance(of, piece.threads, atom, ahead)) return false;
  next.insert(next.end(), ahead.begin(), ahead.end());
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  piece.never = std::move(next);
  piece.threads.clear();
  return true;
}

// On this level and all later ones, a piece begins with this character.
void Pretokens::begin(Config config, u32 level, u32 atom, Configs& out) const {
  if (level == levels_.size()) {
    config.cut = static_cast<u32>(levels_.size());
    config.begun.clear();
    if (!is_lost(config)) out.push_back(std::move(config));
    return;
  }
  const Level& of = levels_[level];
  const Piece before = config.levels[level];
  Piece& piece = config.levels[level];
  Threads next;
  advance(of, {of.start}, atom, next);
  if (!next.empty()) {
    piece.kind = Kind::Match;
    piece.threads = next;
    begin(config, level + 1, atom, out);
  }
  if (!of.gaps || before.kind == Kind::Gap) return;  // two adjacent gaps would be one
  piece = before;
  piece.kind = Kind::Gap;
  piece.threads.clear();
  piece.never.insert(piece.never.end(), next.begin(), next.end());
  std::sort(piece.never.begin(), piece.never.end());
  piece.never.erase(std::unique(piece.never.begin(), piece.never.end()), piece.never.end());
  begin(std::move(config), level + 1, atom, out);
}

void Pretokens::read_character(const Config& config, u32 cut, u32 atom, Configs& out) const {
  Config next = config;
  for (u32 level = 0; level < levels_.size(); ++level) {
    Piece& piece = next.levels[level];
    if (piece.kind == Kind::None) continue;  // the beginning of the text
    if (level < cut) {
      if (!go_on(level, piece, atom)) return;
    } else if (level == cut) {
      if (!end(level, piece, atom)) return;
    } else {  // the piece that this level cut has ended
      if (!end(level, piece, kEnd)) return;
      piece = Piece();
    }
  }
  begin(std::move(next), cut, atom, out);
}

void Pretokens::read_token(Config config, u32 cut, std::string_view token, Configs& out) {
  const u32 none = static_cast<u32>(levels_.size());
  Configs now{std::move(config)}, next;
  bool broken = !now[0].begun.empty();  // another token began this character
  if (!broken) now[0].cut = cut;
  for (char byte : token) {
    next.clear();
    for (Config& one : now) {
      one.begun.push_back(byte);
      if (!begins_character(one.begun)) continue;
      if (one.begun.size() < length_of(static_cast<u8>(one.begun[0]))) {
        next.push_back(std::move(one));
        continue;
      }
      const u32 found = atom(code_point(one.begun));
      if (!broken || (broken_ >> found & 1)) read_character(one, one.cut, found, next);
    }
    broken = broken && std::any_of(next.begin(), next.end(), [](const Config& one) { return !one.begun.empty(); });
    std::swap(now, next);
    if (now.empty()) return;
  }
  for (Config& one : now) {
    if (one.begun.empty()) {
      one.cut = none;
    } else {  // a character with these bytes must follow
      Configs after;
      const u64 atoms = possible(one.begun);
      for (u32 atom = 0; atom < kEnd && after.empty(); ++atom)
        if (atoms >> atom & 1) read_character(one, one.cut, atom, after);
      if (after.empty()) continue;
    }
    out.push_back(std::move(one));
  }
}

Pretokens::State Pretokens::make_step(State state, u32 atom, bool cut) {
  const u32 none = static_cast<u32>(levels_.size());
  Configs out;
  const Configs from = states_[state];
  for (Config config : from) {
    if (!config.begun.empty() || (cut && is_held(config))) continue;
    if (cut) config.tag = 0;
    const bool fresh = config.levels[0].kind == Kind::None;
    if (!cut && !fresh)
      read_character(config, none, atom, out);
    else if (cut && fresh)
      begin(config, 0, atom, out);
    else if (cut)
      for (u32 level = 0; level < none; ++level) read_character(config, level, atom, out);
  }
  return intern(std::move(out));
}

Pretokens::State Pretokens::read(State state, std::string_view token, bool cut) {
  const u32 none = static_cast<u32>(levels_.size());
  Configs out;
  const Configs from = states_[state];
  for (Config config : from) {
    if (cut && is_held(config)) continue;
    if (cut) config.tag = 0;
    const bool fresh = config.begun.empty() && config.levels[0].kind == Kind::None;
    if (!cut) {
      if (!fresh) read_token(config, none, token, out);
    } else if (config.begun.empty()) {
      for (u32 level = 0; level < (fresh ? 1 : none); ++level) read_token(config, level, token, out);
    }
  }
  return intern(std::move(out));
}

Pretokens::State Pretokens::unite(State a, State b) {
  if (a == b || b == kDead) return a;
  if (a == kDead) return b;
  const u64 key = u64{std::min(a, b)} << 32 | std::max(a, b);
  if (auto it = united_.find(key); it != united_.end()) return it->second;
  const State found = make_union(a, b);
  return united_.emplace(key, found).first->second;
}

Pretokens::State Pretokens::make_union(State a, State b) {
  Configs both = states_[a];
  both.insert(both.end(), states_[b].begin(), states_[b].end());
  return intern(std::move(both));
}

bool Pretokens::may_end(State state) {
  for (const Config& config : states_[state]) {
    if (!config.begun.empty() || is_held(config)) continue;
    bool ends = true;
    for (u32 level = 0; level < levels_.size() && ends; ++level)
      if (Piece piece = config.levels[level]; piece.kind != Kind::None) ends = end(level, piece, kEnd);
    if (ends) return true;
  }
  return false;
}

bool Pretokens::includes(State larger, State smaller) const {
  const Configs &all = states_[larger], &some = states_[smaller];
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// Can every text of these characters be read? Follows all guesses at once.
bool Pretokens::reads_all(u64 atoms) {
  std::vector<State> open;
  std::unordered_set<State> seen;
  const auto reach = [&](State state) {
    if (state == kDead || !may_end(state)) return false;
    if (seen.insert(state).second) open.push_back(state);
    return seen.size() < kMostReadable;
  };
  for (u32 atom = 0; atom < atom_count_; ++atom)
    if ((atoms >> atom & 1) && !reach(step(kFresh, atom, true))) return false;
  while (!open.empty()) {
    const State at = open.back();
    open.pop_back();
    for (u32 atom = 0; atom < atom_count_; ++atom) {
      if (!(atoms >> atom & 1)) continue;
      const auto [it, fresh] = either_.try_emplace(u64{at} << 6 | atom, kDead);
      if (fresh) it->second = make_union(step(at, atom, false), step(at, atom, true));
      if (!reach(it->second)) return false;
    }
  }
  return true;
}

u64 Pretokens::readable() {
  if (readable_) return *readable_;
  u64 all = (u64{1} << atom_count_) - 1;
  if (!reads_all(all)) {
    u64 found = 0;
    const auto add = [&](u32 one) {
      if (const u64 bit = u64{1} << one; !(found & bit) && reads_all(found | bit)) found |= bit;
    };
    for (u32 c = 0; c < 0x80; ++c) add(atom(c));
    for (u32 one = 0; one < atom_count_; ++one) add(one);
    all = found;
  }
  readable_ = all;
  return all;
}

// A character may begin the next piece if the state after it includes that of a text that begins with it: then no other
// guess matters.
u64 Pretokens::cuts(State state) {
  if (state < cuts_.size() && cuts_[state] != kNotAsked) return cuts_[state];
  u64 out = may_end(state) ? u64{1} << kEnd : 0;
  const u64 atoms = readable();
  for (u32 atom = 0; atom < atom_count_; ++atom)
    if ((atoms >> atom & 1) && includes(step(state, atom, true), step(kFresh, atom, true))) out |= u64{1} << atom;
  if (cuts_.size() <= state) cuts_.resize(states_.size(), kNotAsked);
  return cuts_[state] = out;
}

u64 Pretokens::cuts_with_next(State state) {
  u64 out = 0;
  for (u64 open = readable() & ~cuts(state) & ~(u64{1} << kEnd); open != 0; open &= open - 1)
    if (const u32 atom = static_cast<u32>(std::countr_zero(open)); step(state, atom, true) != kDead)
      out |= u64{1} << atom;
  return out;
}

// After spaces, a space begins a piece if a letter follows.
bool Pretokens::cuts_by_two(State state, u64 firsts, u64 seconds) {
  const auto any = [&](u64 atoms, auto f) {
    for (u64 open = atoms & readable() & ~(u64{1} << kEnd); open != 0; open &= open - 1)
      if (f(static_cast<u32>(std::countr_zero(open)))) return true;
    return false;
  };
  return any(firsts, [&](u32 first) {
    const State own = step(state, first, true), alone = step(kFresh, first, true);
    return own != kDead && any(seconds, [&](u32 second) {
             return includes(step(own, second, false), step(alone, second, false)) &&
                    includes(step(own, second, true), step(alone, second, true));
           });
  });
}

bool Pretokens::is_partial(State state) const {
  for (const Config& config : states_[state])
    if (!config.begun.empty()) return true;
  return false;
}

Pretokens::State Pretokens::intern(Configs configs) {
  std::sort(configs.begin(), configs.end());
  configs.erase(std::unique(configs.begin(), configs.end()), configs.end());
  if (auto it = known_.find(configs); it != known_.end()) return it->second;
  // May fail, so it comes before the state has a number.
  if (states_.size() == states_.capacity()) states_.reserve(2 * states_.size() + 8);
  steps_.resize(128 * (states_.size() + 1), kUnread);
  const State number = known_.emplace(configs, static_cast<State>(states_.size())).first->second;
  for (const Config& config : configs) {
    bytes_ += 2 * (sizeof(Config) + config.begun.capacity());
    for (const Piece& piece : config.levels)
      bytes_ += 2 * (sizeof(Piece) + 4 * (piece.threads.capacity() + piece.never.capacity()));
  }
  states_.push_back(std::move(configs));
  return number;
}

}  // namespace guiderail
