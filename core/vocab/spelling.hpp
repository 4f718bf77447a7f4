// How a tokenizer of byte-pair encoding spells, decided token by token: which tokens may follow which.
//
// A token is made by one tree of merges, whatever stands around it. Two tokens stand side by side in the canonical
// spelling of a piece if and only if no merge crosses the place between them before the parts that it needs are gone:
//
//   a = (w x_1), b = (y_1 z): the merge (x_1 y_1) must come later than (w x_1), or than (y_1 z)
//
// and a piece is spelled canonically if each of its tokens and each two neighbours are (Vieira et al. 2025,
// arXiv:2506.07956, prove it). All that a merge (x y) forbids after x is the tokens whose left spine holds y, and there
// a range: the tokens whose tree begins with y, in the order of the merge that makes y disappear.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>

#include "vocab/pretokens.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

// The merges of a byte-pair encoding, by rank; of several with the least rank the first in the text is done.
struct Merges {
  std::vector<u32> left, right, made, rank;
  std::vector<std::int64_t> bytes;    // the token of each byte; -1: none
  bool whole = false;                 // a piece that is a token is that token, whatever the merges say
  std::vector<std::string> separate;  // texts that are tokens of their own wherever they stand
};

// Finds texts in what is read byte by byte (Aho & Corasick 1975).
class Separate {
 public:
  explicit Separate(const std::vector<std::string>& texts);
  static constexpr u32 kFound = 0xFFFFFFFF;
  u32 read(u32 state, std::string_view bytes) const;  // kFound: one of them ends in these bytes
  bool none() const { return nodes_.size() == 1; }

 private:
  struct Node {
    std::map<u8, u32> next;
    u32 shorter = 0;
    bool found = false;
  };
  std::vector<Node> nodes_;
};

// Limits and crossovers (python benchmarks/canonical.py).
inline constexpr std::size_t kMostSpelled = 1u << 18;   // limit: places of which a completion is known; then all go
inline constexpr std::size_t kSpelledBytes = 1u << 16;  // limit: bytes of a completion that is spelled
inline constexpr std::size_t kSpelledPlaces = 256;      // limit: bytes of it that know the rest
inline constexpr u32 kSpelledFuel = 4096;               // limit: tokens looked at by one search for a completion
inline constexpr std::size_t kSpelledDepth = 512;       // limit: tokens of a completion that is searched for
inline constexpr std::size_t kManySpelled = 48;         // crossover: tokens of a mask that are not looked at one by one
inline constexpr std::size_t kManyCounted = 2048;       // crossover: the same, where each leads to a state of its own
inline constexpr std::size_t kPlainCharacters = 10;     // characters of ASCII that make a text plain
inline constexpr std::size_t kAllCharacters = 93;       // of a text in which all may come but quote and backslash
inline constexpr u32 kCounted = 16;                     // characters of tokens that are not looked at one by one
inline constexpr std::size_t kMostRows = 1024;          // limit: tokens of which the pairs are kept as bits
inline constexpr std::size_t kMostMadeOf = 64;          // limit: sets of characters whose tokens are kept

class Spelling {
 public:
  // What matters of the tokens so far.
  struct State {
    u32 place = kFresh;  // in the pieces, and in texts that must not come about
    int last = -1;       // the token before; -1: none, or no text
    auto operator<=>(const State&) const = default;
    bool dead() const { return place == kDead; }
  };

  static constexpr u32 kDead = 0, kFresh = 1;  // places

  Spelling(std::shared_ptr<Vocabulary> vocabulary, const Merges& merges, Pretokens pretokens);

  // Takes the tokens out of a mask that cannot come next; those that are no text stay.
  void restrict(const State& state, u32* words);
  State next(const State& state, u32 token);
  bool may_end(const State& state);
  // The places that tokens of whole characters lead to, and the shapes of those.
  using After = std::vector<std::pair<u32, std::vector<u32>>>;
  const After& after(const State& state);
  // Of tokens, takes out those of some shapes (of so many characters; 0: of any), those of more characters, and those
  // that leave one of the separate texts open.
  void clear(const std::vector<u32>& shapes, u32 characters, Words& out) const;
  void clear_longer(u32 characters, Words& out) const;
  void clear_open(const State& state, Words& out);
  // The tokens of whole characters: of ASCII those of a set, and of the others all or none.
  std::shared_ptr<const Words> made_of(const ByteSet& ascii, bool others);
  // May these two stand side by side in a piece?
  bool pair(u32 a, u32 b) const;
  bool is_own(u32 token) const { return trees_[token].made; }  // does it spell its own text?
  // Is it part of a piece? Else it stands between two texts.
  bool is_piece(u32 token) const { return vocabulary_->is_text(token) && !separate_tokens_.contains(token); }
  Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<u32>& odd() const { return odd_; }
  std::size_t memory();

 private:
  static constexpr u32 kNone = 0xFFFFFFFF;
  struct Tree {
    u32 left = kNone, right = kNone, rank = kNone;  // kNone: a byte
    bool made = false;
    bool orderly = true;  // each merge comes after those of its parts
  };
  struct Step {  // of the making of a token: its rank, and the first and the last part before it
    u32 rank, first, last;
  };
  struct Open {  // tokens that make a separate text whole, and that leave one begun
    std::vector<u32> whole, begun;
  };
  struct Masks {
    Words begins, inside;
  };
  struct Shape {  // of tokens: characters that no pre-tokenizer tells apart
    std::string atoms;
    std::vector<u32> tokens;
  };

  void plant(const Merges& merges);
  void order();
  void sort_shapes();
  void hold_odd();
  u32 walk_odd(u32 tag, std::string_view text) const;
  std::vector<Step> steps(u32 token) const;
  bool played(u32 a, u32 b) const;
  void correct(u32 token, Words& out) const;
  void forbid_after(u32 part, u32 absorbed, Words& out) const;
  const Words& row(u32 token);
  Pretokens::State untagged(Pretokens::State state);
  u32 place(Pretokens::State pieces, u32 separate);
  const Open& open(u32 separate);
  const Masks& masks(Pretokens::State state);
  Pretokens::State read(Pretokens::State state, u32 token, bool cut);

  std::shared_ptr<Vocabulary> vocabulary_;
  Pretokens pretokens_;
  bool whole_;
  std::vector<Tree> trees_;
  std::unordered_map<u64, u32> made_of_;    // (left, right) -> token
  std::vector<std::vector<u32>> began_by_;  // tokens whose tree has this one at its left, by rank
  std::vector<u32> begin_, end_, ordered_;  // by token: its range in the order of left spines
  std::vector<u32> disorderly_;
  std::unordered_map<u32, std::vector<u32>> disorderly_after_;  // of them, those that a merge may bind to a part
  std::vector<u32> odd_;                                        // tokens that only a whole piece can be
  std::vector<std::map<u8, u32>> odd_trie_;                     // of their texts; empty: there are none
  std::vector<u32> in_odd_;                                     // tokens that are parts of their texts
  Separate separate_;
  std::unordered_set<u32> separate_tokens_;
  std::vector<Shape> shapes_;
  std::vector<u32> broken_;  // tokens that are not made of whole characters
  std::vector<u32> shape_of_;
  Words own_;  // tokens that merges make
  Words no_text_;

  std::mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<const Words>> rows_;
  std::deque<u32> kept_rows_;
  std::vector<std::unique_ptr<Masks>> masks_;
  std::unordered_map<u32, Pretokens::State> untagged_;
  struct Place {
    Pretokens::State pieces;
    u32 separate;
  };
  std::vector<Place> places_;
  std::map<std::pair<u32, u32>, u32> place_of_;
  std::unordered_map<u32, Open> open_;                           // by the state of `separate_`
  std::unordered_map<u32, std::unique_ptr<const After>> after_;  // by state of the pieces
  std::vector<std::pair<std::pair<ByteSet, bool>, std::shared_ptr<const Words>>> made_of_set_;
};

}  // namespace guiderail
