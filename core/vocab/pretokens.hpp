// Where a tokenizer cuts a text before it searches for tokens: its pre-tokenizer, read along with the tokens.
//
// A pre-tokenizer is a sequence of levels. Each level cuts the pieces of the previous one by a regular expression with
// ordered alternatives; text between matches is a piece of its own. A text is spelled canonically if a token begins
// wherever a piece begins, and the tokens within each piece are those of the piece. Where a piece ends depends on what
// follows (`\s+(?!\S)`), so a state is a set of guesses:
//
//  "ab" " c"     after ab: the threads of \p{L}+ that may continue; the next character, a space, ends the piece
//
// For each level, a guess contains the threads of the match in order of preference, and the threads that must not
// match. These are threads of higher preference, which would have continued a piece that the guess has ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/support.hpp"

namespace guiderail {

class Pretokens {
 public:
  enum class Op : u8 { Char, Split, Next, Match };
  struct Instruction {
    Op op;
    u64 atoms;  // Char reads one of these; Next checks whether one of these comes (bit 63: the end of the piece)
    u32 a, b;   // targets; Split prefers a
  };
  struct Level {
    std::vector<Instruction> program;
    u32 start = 0;
    bool gaps = true;  // text between matches is a piece; otherwise it is dropped, and no text with it is canonical
  };
  using State = u32;
  static constexpr State kDead = 0, kFresh = 1;
  static constexpr u32 kEnd = 63;  // as an atom

  // `atoms`: for each code point, its class of characters that no level distinguishes. `broken`: characters that
  // several tokens may share.
  Pretokens(std::vector<Level> levels, std::string atoms, u64 broken = ~u64{0});

  // After one character. `cut`: a piece ends before it.
  State step(State state, u32 atom, bool cut) {
    const std::size_t at = (std::size_t{state} * 2 + cut) * 64 + atom;
    const State known = steps_[at];
    return known != kUnread ? known : steps_[at] = make_step(state, atom, cut);
  }
  // After the bytes of a token, which may contain incomplete characters.
  State read(State state, std::string_view token, bool cut);
  State unite(State a, State b);
  bool may_end(State state);
  // Each guess carries a number, 0 if its piece has no token yet. Returns the state with other numbers.
  template <class F>
  State retag(State state, F f) {
    Configs configs = states_[state];
    for (Config& config : configs) config.tag = f(config.tag);
    return intern(std::move(configs));
  }
  // Does the state have a guess that must not end its piece?
  bool is_held(State state) const {
    for (const Config& config : states_[state])
      if (is_held(config)) return true;
    return false;
  }
  template <class F>
  void each_tag(State state, F f) const {
    for (const Config& config : states_[state]) f(config.tag);
  }
  // Atoms of characters such that every text of them can be read to its end.
  u64 readable();
  // Atoms that may begin the next piece here, whichever readable characters follow; bit kEnd: the text may end.
  u64 cuts(State state);
  // Those that may begin it only if the right characters follow.
  u64 cuts_with_next(State state);
  // Does a text of two such characters begin the next piece here, whichever readable characters follow it?
  bool cuts_by_two(State state, u64 firsts, u64 seconds);
  u32 atom_count() const { return atom_count_; }
  // Atoms of the characters that begin with these bytes, which a token leaves unfinished.
  u64 possible(const std::string& begun);
  // Pieces with these numbers must not end.
  void hold(std::vector<bool> held) { held_ = std::move(held); }
  bool holds(u32 number) const { return number < held_.size() && held_[number]; }
  // Is the state inside a character?
  bool is_partial(State state) const;
  const std::vector<Level>& levels() const { return levels_; }
  u32 atom(u32 code_point) const { return static_cast<u8>(atoms_[code_point]); }
  std::size_t size() const { return states_.size(); }
  std::size_t memory() const { return bytes_ + cuts_.capacity() * sizeof(cuts_[0]) + united_.size() * 40; }

 private:
  using Threads = std::vector<u32>;
  enum class Kind : u8 { None, Match, Gap };
  struct Piece {
    Kind kind = Kind::None;
    Threads threads, never;
    bool operator==(const Piece&) const = default;
    bool operator<(const Piece& o) const {
      return std::tie(kind, threads, never) < std::tie(o.kind, o.threads, o.never);
    }
  };
  struct Config {
    std::vector<Piece> levels;
    u32 cut = 0;        // the level whose piece ends before the unfinished character; number of levels: none
    std::string begun;  // bytes of an unfinished character
    u32 tag = 0;
    bool operator==(const Config&) const = default;
    bool operator<(const Config& o) const {
      return std::tie(levels, cut, begun, tag) < std::tie(o.levels, o.cut, o.begun, o.tag);
    }
  };
  using Configs = std::vector<Config>;

  bool is_lost(const Config& config) const;
  bool reads_all(u64 atoms);
  bool includes(State larger, State smaller) const;
  bool always_matches(const Level& level, u32 at) const;
  bool advance(const Level& level, const Threads& from, u32 atom, Threads& out) const;
  bool follow(const Level& level, u32 at, u32 atom, std::vector<bool>& seen, Threads& out) const;
  bool go_on(u32 level, Piece& piece, u32 atom) const;
  bool end(u32 level, Piece& piece, u32 atom) const;
  void begin(Config config, u32 level, u32 atom, Configs& out) const;
  void read_character(const Config& config, u32 cut, u32 atom, Configs& out) const;
  void read_token(Config config, u32 cut, std::string_view token, Configs& out);
  bool is_held(const Config& config) const { return holds(config.tag); }
  State make_step(State state, u32 atom, bool cut);
  State make_union(State a, State b);
  State intern(Configs configs);

  std::vector<Level> levels_;
  std::string atoms_;
  u64 broken_;
  static constexpr State kUnread = 0xFFFFFFFF;
  static constexpr u64 kNotAsked = ~u64{0};
  u32 atom_count_ = 0;
  std::vector<bool> held_;
  std::optional<u64> readable_;
  std::vector<u64> cuts_;                  // by state; kNotAsked
  std::unordered_map<u64, State> either_;  // (state, atom) -> the state after it, whether or not a piece ends before it
  std::unordered_map<u64, State> united_;  // by two states
  std::map<std::string, u64> possible_;    // atoms, by the prefix of a character
  std::vector<Configs> states_;
  std::vector<State> steps_;  // by state, whether a piece ends, and atom
  std::map<Configs, State> known_;
  std::size_t bytes_ = 0;
};

}  // namespace guiderail
