// Which characters each token contains. It yields the tokens of a class of characters, and the tokens that leave the
// class, without a scan of the trie. Only for classes that contain all or none of the characters beyond ASCII.
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

struct Letters {  // a set of bytes: ASCII one by one, the others as one; and whether anything is not UTF-8
  u64 low = 0, high = 0;
  bool beyond = false, broken = false;
  u16 chars = 0;  // the number of characters, if this describes one path
  bool within(const Letters& all) const {
    return !((low & ~all.low) | (high & ~all.high)) && beyond <= all.beyond && broken <= all.broken;
  }
};

// The tokens that consist of characters of one set (the last may be unfinished).
struct SpelledClass {
  CharSet::Ptr chars;
  Letters letters;
  std::shared_ptr<const Words> dense;
  std::size_t tokens = 0;
};

// What follows a byte within tokens, merged into one trie, and for each token the characters before the byte.
struct SpelledExits {
  std::shared_ptr<const ExitTrie> trie;
  std::vector<Letters> before;  // by index of ExitTrie::tokens
};

class CharacterIndex {
 public:
  void build(const Trie& trie, u32 words, u32 longest);
  bool empty() const { return text_.empty(); }
  // Null: the class is of another kind, or has few tokens.
  std::shared_ptr<const SpelledClass> spelled_class(const CharSet::Ptr& chars);
  // False: the class is of another kind.
  static bool letters_of(const CharSet& chars, Letters& out);
  bool many_exits(u8 byte) const { return exits_[byte].size() > kManyIndexExits; }
  // The nodes reached by this byte from a whole character, in order.
  const std::vector<u32>& nodes_at(u8 byte) const { return exits_[byte]; }
  // Adds the tokens that contain an ASCII character.
  void add_users(u8 c, Words& to) const;
  bool no_exits(u8 byte) const { return exits_[byte].empty(); }
  std::shared_ptr<const SpelledExits> exits(u8 byte, const Trie& trie);
  // The tokens of the class, and those that leave it by this byte and end there.
  std::shared_ptr<const Words> dense_with(const SpelledClass& of, u8 byte, const SpelledExits& exits);
  std::size_t memory() const;

 private:
  struct Users {  // the tokens that contain a character
    Words dense;
    std::vector<u32> few;
  };
  void take(const Users& users, Words& from) const;

  Words text_;  // all tokens of the trie
  std::array<Users, 128> users_;
  Users beyond_, broken_;
  PagedVector<Letters> paths_;               // by node
  std::array<std::vector<u32>, 256> exits_;  // by byte: the nodes that it leads to from a whole character
  mutable std::mutex mutex_;                 // for what follows
  std::map<const CharSet*, std::shared_ptr<const SpelledClass>> classes_;
  std::map<std::pair<const CharSet*, u8>, std::shared_ptr<const Words>> with_;
  std::array<std::shared_ptr<const SpelledExits>, 256> tries_;
};

}  // namespace guiderail
