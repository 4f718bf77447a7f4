// Texts in canonical spelling: how many tokens complete one, and which tokens have a completion at all.
//
// The constraint and the previous tokens may allow a token that leads nowhere: if `abc` is the only text, spelled a|bc,
// no canonical text begins with ab. So every token that may come must have a completion:
//
//  - one that begins a piece: if the constraint allows a character that may begin one, every text that follows can be
//    spelled. So what may follow a token proves nearly all tokens of a mask (see outlook.hpp);
//  - otherwise, a text that completes the state is spelled. Then the tokens that may follow within the piece are tried,
//    and the tokens after those, with bounded work. A search that ends proves that there is no completion. A search
//    that reaches its bound tries texts after the states that it has reached; if none can be spelled, the token is
//    rejected;
//  - along a shortest text, if the pre-tokenizer cannot read every text, or if a text must be a token of its own.
#pragma once

#include <set>
#include <tuple>

#include "mask/outlook.hpp"
#include "run/matcher.hpp"
#include "vocab/spelling.hpp"

namespace guiderail {

class StandIns;

class CanonicalTexts {
 public:
  CanonicalTexts(Program& program, std::shared_ptr<Spelling> spelling)
      : program_(program), held_(std::move(spelling)), spelling_(*held_) {}

  // Was a completion found?
  bool completes(const Guide& guide, Id state, const Spelling::State& spelled);
  // The number of tokens of the best completion found, without stop tokens; kInf: none was found.
  u32 needed(const Guide& guide, Id state, const Spelling::State& spelled);
  // Is a token allowed, given that the constraint and the spelling allow it and lead to `next`?
  bool allows(const Guide& guide, const Position& at, u32 token, const Position& next);
  // Removes from a mask of the constraint the tokens that cannot come, and those without a known completion of at most
  // `left` tokens.
  void restrict(const Guide& guide, Id state, const Spelling::State& spelled, u32 left, u32* words);
  // Writes the mask of a place without a budget, if tokens are decided together and each is proved or cannot come.
  bool fill_at_once(const Guide& guide, Id state, const Spelling::State& spelled, u32* words);
  // Writes the mask of a place without a budget, if it is cached.
  bool recall(Id state, const Spelling::State& spelled, u32* words);
  std::size_t memory() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Key {
    Id state;
    u32 place;
    int last;
    bool operator==(const Key&) const = default;
  };
  struct Hasher {
    std::size_t operator()(const Key& k) const {
      return mix64((u64{index_of(k.state)} << 32 | k.place) ^ (u64{static_cast<u32>(k.last)} << 20) ^ secrets.flat);
    }
  };
  static constexpr u32 kNoToken = 0xFFFFFFFF;
  struct Need {
    u32 tokens;            // of a completion; kInf: none
    u32 token = kNoToken;  // its first token, if known,
    Key next{};            // and what follows that token
  };
  using Seen = std::unordered_set<Key, Hasher>;
  struct Search {  // for a completion
    u32 fuel;      // tokens that may still be tried
    Seen seen{};
    std::vector<std::pair<Id, Spelling::State>> reached{};  // states that could be tried next
  };

  static Hash identity(const Key& key) {  // unique
    const u64 place = mix64(u64{index_of(key.state)} << 32 | key.place);
    return {place + mix64(static_cast<u32>(key.last) ^ secrets.flat), place};
  }
  void find_manner();
  bool replaceable(u8 byte) const;
  bool avoidable(const std::string& text, StandIns& stand_ins, bool& strict) const;
  const Outlooks::View& view(Id state);
  void prove(const Guide& guide, Id state, const Spelling::State& spelled, u32* words);
  // So few tokens of a mask are each decided by itself.
  std::size_t most_alone() const { return spelling_.vocabulary().token_count() / kTokensOfFew; }
  bool list_few(const u32* words, std::size_t most, std::vector<u32>& out) const;
  void restrict_within(Id state, const Spelling::State& spelled, u32 left, u32* words);
  bool lives(Id state, const Spelling::State& spelled);
  bool begins(Id state, u32 place);
  bool begins_by_two(Id state, u32 place);
  enum class Life : u8 { None, Some, Unknown };  // Unknown: no completion was found
  Life look_for_life(Id state, const Spelling::State& spelled);
  bool go_on(Id state, const Spelling::State& spelled, Search& search);
  bool is_wide(Id state);
  template <class F>
  bool each_below(Id state, u32 node, const F& f);
  template <class F>
  bool each_token(Id state, const Spelling::State& spelled, F f);
  u32 need(Id state, const Spelling::State& spelled);
  u32 promise(Id state, Spelling::State spelled);
  u32 need_any(Id state, u32 place);
  u32 by_text(Id state, const Spelling::State& spelled);
  std::vector<std::pair<u32, u32>> beginnings(std::string_view text) const;
  u32 spell(Id state, const Spelling::State& spelled, std::string_view text);
  u32 by_search(Id state, const Spelling::State& spelled);
  bool search(Id state, const Spelling::State& spelled, u32& fuel, Seen& seen);
  std::string_view shortest(Id state);
  Id alike(Id state);
  Key key_of(Id state, const Spelling::State& spelled) { return {alike(state), spelled.place, spelled.last}; }
  void begin(const Guide& guide);
  void note(const Key& key, const Need& need);
  u32 witness(Id state, const Spelling::State& spelled);
  bool ends(Id state, const Spelling::State& spelled) {
    return program_.accepting(state) && spelling_.may_end(spelled);
  }

  Program& program_;
  std::shared_ptr<Spelling> held_;
  Spelling& spelling_;
  std::mutex mutex_;  // guards the following
  const Guide* guide_ = nullptr;
  bool manner_known_ = false;
  bool plain_ = false;   // whatever the constraint allows can be spelled, once it begins a piece
  bool strict_ = false;  // except where a separate text has begun
  std::vector<u32> open_;
  LruCache<std::shared_ptr<const Words>> masks_;
  std::optional<Key> masked_;  // the place of the last mask,
  Words mask_;                 // and that mask
  std::unordered_map<Key, Life, Hasher> lives_;
  std::unordered_map<Key, Need, Hasher> needs_;
  struct Rest {  // the rest of a text that completes another state
    std::shared_ptr<const std::string> text;
    std::size_t from;
  };
  std::unordered_map<Id, Rest> shortest_;
  std::unordered_map<Id, Id> alike_;
  std::unordered_map<Id, Outlooks::View> outlook_of_;
  std::size_t apart_bytes_ = 0;  // that these own
  std::optional<Outlooks> outlooks_;
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace guiderail
