// How many tokens a text still needs: what makes a budget of tokens a promise.
//
// of(s) is the length of a completion of s that was really found, in tokens; stop tokens are not counted. So it is an
// upper bound of the least number, and what the promise rests on is that it can be lived up to:
//
//   of(s) == 0 only where the text may end; otherwise some token leads from s to a state t with of(t) <= of(s) - 1
//
// It holds because numbers are only ever lowered, and never below what a found completion shows. Whoever stays within
// `of` of the next state <= what is left afterwards can always finish.
//
// A number is found in three ways, the cheap one always, the others where it matters:
//   1. a completion that is shortest in bytes (A*, which joins completions found before), cut into the fewest tokens;
//   2. one step ahead: 1 + the least over all tokens, whenever all of them were looked at for a mask;
//   3. breadth first over tokens, which is exact where it finishes (see refine).
#pragma once

#include <optional>
#include <unordered_map>

#include "base/thresholds.hpp"
#include "mask/abstraction.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

class CompletionDistance {
 public:
  // `tokens`: the token of each symbol of the arena; where `sets` is not null, the first of these.
  CompletionDistance(Arena& arena, Vocabulary& vocabulary, const std::vector<u32>& tokens,
                     const std::vector<std::shared_ptr<const Words>>& sets);

  // requires, here and below: mutex of the arena held. Several threads may search at once, taking turns (see
  // Arena::make_room): what was found is shared, what a search keeps is its own.
  u32 of(Id state);      // kInf: no completion was found within the limits
  u32 refine(Id state);  // the same after a more thorough search
  // of(state), if that is known.
  std::optional<u32> found(Id state);
  // The most that any next state needs; nullopt: not looked at yet.
  std::optional<u32> worst(Id state) const;
  // ANDs `words` with the tokens after which at most `left` tokens more are needed.
  void restrict(Id state, u32 left, u32* words);
  // Whether so many tokens complete the text after this one, which leads from the one state to the other. Looked at as
  // for a mask: what restrict() leaves, this accepts.
  bool suffices(Id before, u32 token, Id after, u32 left);
  std::size_t memory() const;

 private:
  struct Entry {
    u32 tokens = kInf, bytes = kInf;
    u32 edge = 0;  // of the completion: a byte, or kSpecial + a special token
    Id next = kEmpty;
  };
  struct Branch {
    Id next;
    bool plain;  // next is without the texts that the state knows
    std::vector<u32> tokens;
    std::vector<std::pair<u32, u32>> spans = {};  // of nodes of the trie: all tokens there
    std::size_t size() const;                     // tokens, at most
  };
  struct Manner {    // of a search
    bool plain;      // printable ASCII only
    bool forgetful;  // states without the texts of keys
    u32 haste;       // 1: a shortest completion
  };
  static constexpr u32 kSpecial = 256;

  void begin(std::size_t work);
  bool exhausted() const { return work_ <= work_kept_ || arena_.node_count() > most_nodes_ - nodes_kept_; }

  u32 known(Id state);
  u32 find(Id state);
  bool complete(Id state);
  bool complete(Id start, Manner manner);
  u32 promise(Id e) const;
  u32 refined(Id e, Manner manner);
  void count(Id state);
  bool by_tokens(Id start, std::size_t most, u32 deepest);
  using Branches = std::shared_ptr<const std::vector<Branch>>;
  Branches profile(Id state);
  Id best_next(Id state);
  u32 need(Id next, u32 left);
  Id forget(Id e) { return Abstraction::of(arena_).without_values(e, plain_); }
  Id leave(Id state);  // see Arena::counts_spent
  Id read_special(Id state, u32 token);
  Id read(Id state, u32 token);
  // Calls f(token, next) for the tokens of a state, special ones included, until it is false; whole(node, next) where
  // all below a node stays in a state; many(tokens, next) for sets of special ones; and open(node) for the subtrees of
  // which a state without texts does not tell.
  template <class F, class Whole, class Many, class Open>
  void each_token(Id state, F f, Whole whole, Many many, Open open);
  // Calls f(token) for the tokens of a branch.
  template <class F>
  void each_of(const Branch& branch, F f) const;
  ByteSet staying(Id state);  // the bytes after which the state is the same
  void lower(Id state, u32 tokens) {
    Entry& entry = known_[state];
    entry.tokens = std::min(entry.tokens, tokens);
  }

  Arena& arena_;
  const Vocabulary& vocabulary_;
  const Trie& trie_;
  const BytesBelow& below_;
  std::vector<u32> specials_;                             // tokens, by symbol
  std::vector<std::shared_ptr<const Words>> sets_;        // the same of sets, else null
  std::unordered_map<u32, std::vector<u32>> symbols_of_;  // by token
  std::unordered_map<u32, std::vector<u32>> twins_;       // tokens spelled alike
  std::unordered_map<Id, Entry> known_;
  std::unordered_map<Id, u32> bounds_;  // bytes that are missing at least, where more is known than the node tells
  std::unordered_map<Id, u32> worst_;
  std::unordered_map<Id, u32> looked_at_;  // so many tokens ahead, breadth first
  std::unordered_map<Id, Id> plain_;       // see Arena::without_values
  std::unordered_map<Id, Id> left_;        // see leave
  std::unordered_map<Id, Branches> profiles_;
  std::size_t profile_size_ = 0;
  u32 added_ = 0;  // expressions in the arena that searches added
  class Turn;
  // of the search that has its turn
  std::size_t work_ = 0;         // states that searches may still visit, and one
  std::size_t steps_ = 0;        // tokens that may still be read where that is not for a mask
  std::optional<Manner> hasty_;  // of the last search that came to an end, where that was one in haste
  std::size_t work_kept_ = 1;    // of work_, for other searches
  u32 nodes_kept_ = 0;           // of most_nodes_, the same
  u32 begun_at_ = 0;             // expressions in the arena
  u32 most_nodes_ = 0;           // expressions that the arena may reach meanwhile
  int depth_ = 0;
  bool unspelled_ = false;  // a completion was found that no tokens spell
};

}  // namespace guiderail
