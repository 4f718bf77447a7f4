// Texts in canonical spelling: how many tokens complete one, and which tokens lead to a completion at all.
//
// A token may be allowed by the constraint, and by the tokens before it, and yet lead nowhere: of `abc` alone, spelled
// a|bc, nothing canonical begins with ab. So each token that may come is followed by a completion:
//
//   - as a rule one that a shortest text has: it is spelled along the tokens that the constraint and the spelling
//     allow, and all places on its way are known from then on;
//   - where the next token begins a piece, the token before does not matter, and the completion serves all such tokens:
//     tokens inside a string are looked at by the places they lead to, a dozen, and not one by one;
//   - where many characters lead to one state, all tokens made of them are proved at once, by the places they lead to;
//   - states that differ only in the text of the key that is being written are taken as one as long as the key may end
//   in
//     the one if and only if it may in the other;
//   - else tokens are searched through, with bounded work. A search that ends has proved that there is no completion;
//     one that meets the bound has found none, and the token is not allowed.
#pragma once

#include <set>
#include <tuple>

#include "run/matcher.hpp"
#include "vocab/spelling.hpp"

namespace guiderail {

class SpelledTexts {
 public:
  SpelledTexts(Program& program, std::shared_ptr<Spelling> spelling)
      : program_(program), held_(std::move(spelling)), spelling_(*held_) {}

  // Tokens that complete the text, stop tokens not counted, as far as was found; kInf: nothing completes it.
  u32 needed(const Guide& guide, Id state, const Spelling::State& spelled);
  // Is a token allowed that the constraint and the spelling allow, and that leads to this?
  bool allows(const Guide& guide, const Position& at, u32 token, const Position& next);
  // Takes those tokens out of a mask after which no completion of at most `left` tokens was found.
  void restrict(const Guide& guide, Id state, const Spelling::State& spelled, u32 left, u32* words);
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
  struct Lead {   // characters after which a text is in one and the same state
    char by = 0;  // one of them; 0: they are too few
    Id to = kEmpty;
    bool loops = false;
    bool beyond = false, any = false;  // so are all characters that are not ASCII and may come; and any may come
    bool escapes = false;              // so are the escapes of two characters that may come
    ByteSet ascii;
  };
  struct Proof {        // of tokens, whatever the token before
    Words done, tried;  // those after which there is a completion; those looked at one by one
    u32 most = 0;       // tokens of the longest of these completions
  };

  u32 need(Id state, const Spelling::State& spelled);
  u32 need_any(Id state, u32 place);
  u32 by_text(Id state, const Spelling::State& spelled);
  std::vector<std::pair<u32, u32>> beginnings(std::string_view text) const;
  u32 spell(Id state, const Spelling::State& spelled, std::string_view text);
  u32 by_search(Id state, const Spelling::State& spelled);
  bool search(Id state, const Spelling::State& spelled, u32& fuel, std::unordered_set<Key, Hasher>& seen);
  std::string_view shortest(Id state);
  Id alike(Id state);
  Key key_of(Id state, const Spelling::State& spelled) { return {alike(state), spelled.place, spelled.last}; }
  const Lead& lead(Id state);
  struct Beyond {
    bool returns = true, any = true;
  };
  void beyond(Id state, Id to, int bytes, unsigned first, unsigned last, Beyond& out);
  Beyond beyond_ascii(Id state, Id to);
  void prove(Id state, const Spelling::State& spelled, u32 left, Proof& out);
  void branch(Id state, Id to, Spelling::Characters& of);
  Proof& proof(Id state, const Spelling::State& spelled);
  bool is_proved(Id state, const Spelling::State& spelled, u32 token, Id next, Proof& of);
  void make_room();
  void note(const Key& key, u32 needed);
  bool ends(Id state, const Spelling::State& spelled) {
    return program_.accepting(state) && spelling_.may_end(spelled);
  }

  Program& program_;
  std::shared_ptr<Spelling> held_;
  Spelling& spelling_;
  std::mutex mutex_;  // of what follows
  const Guide* guide_ = nullptr;
  std::unordered_map<Key, u32, Hasher> needs_;
  struct Rest {  // of a text that completes another state
    std::shared_ptr<const std::string> text;
    std::size_t from;
  };
  std::unordered_map<Id, Rest> shortest_;
  std::unordered_map<Id, Lead> leads_;
  std::unordered_map<Id, Id> alike_;
  std::unordered_map<Key, Proof, Hasher> proofs_;  // by state and place
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace guiderail
