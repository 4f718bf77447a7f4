// Which characters the tokens are spelled with: the tokens of a class of characters, and those that leave it, without a
// scan of the trie for each class. For classes with all or no characters beyond ASCII.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/pages.hpp"
#include "base/thresholds.hpp"
#include "text/charset.hpp"
#include "vocab/mask_scratch.hpp"

namespace guiderail {

struct Trie;
struct ExitTrie;

struct Letters {  // a set of bytes: those of ASCII one by one, the others as one, and what is not UTF-8
  u64 low = 0, high = 0;
  bool beyond = false, broken = false;
  u16 chars = 0;  // how many, where it is of one path
  bool within(const Letters& all) const {
    return !((low & ~all.low) | (high & ~all.high)) && beyond <= all.beyond && broken <= all.broken;
  }
};

// The tokens made only of characters of one set (the last may be unfinished).
struct SpelledClass {
  CharSet::Ptr chars;
  Letters letters;
  std::shared_ptr<const Words> dense;
  std::size_t tokens = 0;
};

// What follows a byte inside of tokens, merged, with what stands before it.
struct SpelledExits {
  std::shared_ptr<const ExitTrie> trie;
  std::vector<Letters> before;  // by index of ExitTrie::tokens
};

class CharacterIndex {
 public:
  void build(const Trie& trie, u32 words, u32 longest);
  bool empty() const { return text_.empty(); }
  // Null: not a class of the kind, or one of few tokens.
  std::shared_ptr<const SpelledClass> spelled_class(const CharSet::Ptr& chars);
  // False: not a class of the kind.
  static bool letters_of(const CharSet& chars, Letters& out);
  bool many_exits(u8 byte) const { return exits_[byte].size() > kManyIndexExits; }
  // Nodes after a whole character, by the byte that leads to them, in order.
  const std::vector<u32>& nodes_at(u8 byte) const { return exits_[byte]; }
  // Adds the tokens in which a character of ASCII occurs.
  void add_users(u8 c, Words& to) const;
  bool no_exits(u8 byte) const { return exits_[byte].empty(); }
  std::shared_ptr<const SpelledExits> exits(u8 byte, const Trie& trie);
  // The class with the tokens that leave it by this byte and end there.
  std::shared_ptr<const Words> dense_with(const SpelledClass& of, u8 byte, const SpelledExits& exits);
  std::size_t memory() const;

 private:
  struct Users {  // tokens in which a character occurs
    Words dense;
    std::vector<u32> few;
  };
  void take(const Users& users, Words& from) const;

  Words text_;  // all tokens of the trie
  std::array<Users, 128> users_;
  Users beyond_, broken_;
  PagedVector<Letters> paths_;               // by node
  std::array<std::vector<u32>, 256> exits_;  // nodes after a whole character, by their byte
  mutable std::mutex mutex_;                 // of what follows
  std::map<const CharSet*, std::shared_ptr<const SpelledClass>> classes_;
  std::map<std::pair<const CharSet*, u8>, std::shared_ptr<const Words>> with_;
  std::array<std::shared_ptr<const SpelledExits>, 256> tries_;
};

}  // namespace guiderail
