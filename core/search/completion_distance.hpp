// How many tokens a text still needs: this makes a budget of tokens a promise.
//
// of(s) is the length of an actual completion of s, in tokens, without stop tokens. So it is an upper bound of the
// least number. The promise rests on this invariant:
//
//   of(s) == 0 only if the text may end; otherwise some token leads from s to a state t with of(t) <= of(s) - 1
//
// It holds because numbers are only ever lowered, and never below what an actual completion shows. Whoever keeps `of`
// of the next state <= the number of tokens then left can always finish.
//
// A number is found in four ways, the cheap one always, the others where it matters:
//   1. a completion that is shortest in bytes (A*, which joins earlier completions), cut into the fewest tokens;
//   2. one step ahead: 1 + the least over all tokens, whenever a mask has examined all of them;
//   3. breadth first over tokens, which is exact if it finishes (see refine).
//   4. where these find none that is near enough: a completion composed of parts (see composition.hpp).
// While many tokens are left, no number is needed: see need_bound.hpp.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/thresholds.hpp"
#include "mask/abstraction.hpp"
#include "search/best_first.hpp"
#include "search/need_bound.hpp"
#include "search/symbols.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

class CompletionDistance {
 public:
  CompletionDistance(Arena& arena, Vocabulary& vocabulary, std::shared_ptr<const Symbols> symbols);

  // requires, here and below: mutex of the arena held. Several threads may search at once, taking turns (see
  // Arena::make_room). They share what is found, but not what a search keeps.
  u32 of(Id state);      // kInf: no completion found within the limits
  u32 refine(Id state);  // the same, after a more thorough search
  // of(state), if known.
  std::optional<u32> found(Id state);
  // The most that any next state needs; nullopt: not examined yet.
  std::optional<u32> worst(Id state) const;
  // An upper bound of that, found without examining them (see need_bound.hpp); kInf: unknown.
  u32 bound(Id state);
  // Does a completion composed of parts take at most so many tokens? Then of(state) does, from now on.
  bool compose(Id state, u32 most);
  // The least of a number that was found and that of a composed completion, which may have been promised.
  u32 or_composed(Id state, u32 found);
  bool is_composed(Id state) const { return composed_.contains(state); }  // found(state) is that number
  // ANDs `words` with the tokens after which at most `left` more tokens are needed.
  void restrict(Id state, u32 left, u32* words);
  // Can `left` tokens complete the text after this token, which leads from `before` to `after`? Accepts whatever
  // restrict() leaves, and may accept more: it looks closer at one token.
  bool suffices(Id before, u32 token, Id after, u32 left);
  std::size_t memory() const;

 private:
  friend class NeedBound;
  friend class Composition;
  struct Entry {
    u32 tokens = kInf, bytes = kInf;
    u32 edge = 0;  // first edge of the completion: a byte, or kSpecial + a special token
    Id next = kEmpty;
  };
  struct Branch {
    Id next;
    bool plain;  // `next` is without the texts that the state knows
    std::vector<u32> tokens;
    std::vector<std::pair<u32, u32>> spans = {};  // ranges of trie nodes: all tokens there
    std::size_t size() const;                     // at most how many tokens
  };
  struct Search {               // the one whose turn it is
    std::size_t work = 0;       // states that searches may still visit, plus one
    std::size_t steps = 0;      // tokens that may still be read except for masks
    std::size_t for_parts = 0;  // parts that may still be looked at
    std::size_t work_kept = 1;  // the part of the work for other searches
    u32 begun_at = 0;           // expressions in the arena
    u32 most_nodes = 0;         // how many expressions the arena may reach
    u32 nodes_kept = 0;         // the part of these for other searches
    int depth = 0;
    bool unspelled = false;  // some completion found cannot be spelled with tokens
  };
  static constexpr u32 kSpecial = 256, kNoToken = 0xFFFFFFFF;

  void begin(std::size_t work);
  u32 most_nodes_ever() const { return arena_.limits().max_nodes / 8 * 7; }  // texts and masks need the rest
  void allow_nodes(u32 more) { now_.most_nodes = std::min(now_.most_nodes + more, most_nodes_ever()); }
  bool exhausted() const {
    return now_.work <= now_.work_kept || arena_.node_count() > now_.most_nodes - now_.nodes_kept;
  }

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
  std::vector<u32> promised(Id state);
  u32 token_towards(Id from, u32 least, Id& next);
  void link(Id from, u32 edge, Id next);
  // Of states that differ only in the texts of keys (see shared_completions.cpp):
  std::optional<std::string> text_of(Id state) const;
  void share(Id state);
  std::vector<Id> along(Id state, const std::string& completion);
  bool follow(Id state, const std::string& completion);
  std::vector<u32> fewest_tokens(std::string_view text) const;
  const Words& marks();
  u32 shared_need(Id state, const Branch& branch, u32 left, std::vector<u32>& unsure);
  Id forget(Id e) { return Abstraction::of(arena_).without_values(e, plain_); }
  Id leave(Id state);  // see Arena::counts_spent
  Id read_special(Id state, u32 token);
  Id read(Id state, u32 token);
  // Visits the tokens of a state, special ones included. f(token, next) returns false to stop. whole(node, next): all
  // tokens below a node stay in one state. many(tokens, next): a set of special tokens. open(node): a state without
  // texts cannot decide the tokens below this node.
  template <class F, class Whole, class Many, class Open>
  void each_token(Id state, F f, Whole whole, Many many, Open open);
  // Calls f(token) for the tokens of a branch.
  template <class F>
  void each_of(const Branch& branch, F f) const;
  ByteSet staying(Id state);  // the bytes that leave the state as it is
  void lower(Id state, u32 tokens) {
    Entry& entry = known_[state];
    entry.tokens = std::min(entry.tokens, tokens);
  }

  Arena& arena_;
  const Vocabulary& vocabulary_;
  const Trie& trie_;
  const BytesBelow& below_;
  std::shared_ptr<const Symbols> symbols_;
  std::unordered_map<u32, std::vector<u32>> twins_;  // tokens with the same text
  std::unordered_map<Id, Entry> known_;
  std::unordered_map<Id, u32> bounds_;  // lower bounds of the missing bytes that are better than the node's
  std::unordered_map<Id, u32> worst_;
  std::unordered_map<Id, u32> looked_at_;       // how many tokens ahead, breadth first
  std::unordered_map<Id, Id> plain_;            // see Arena::without_values
  std::unordered_map<Id, Id> left_;             // see leave
  std::unordered_map<Id, std::string> shared_;  // by state without texts: what completes a state like it
  std::size_t shared_bytes_ = 0;                // that these own
  Words marks_;                                 // empty: not made yet
  std::unordered_map<Id, Branches> profiles_;
  std::size_t profile_size_ = 0;
  KnownParts parts_;
  std::unordered_set<Id> composed_;  // see or_composed
  KnownNeeds needs_;
  u32 added_ = 0;  // expressions that searches have added to the arena
  class Turn;
  Search now_;
  std::optional<Manner> hasty_;  // of the last successful search, if it was hasty
};

}  // namespace guiderail
