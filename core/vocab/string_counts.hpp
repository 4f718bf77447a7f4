// How many characters of a JSON string each token reads, for strings of any characters but bounded length.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "text/escape.hpp"
#include "vocab/mask_scratch.hpp"

namespace guiderail {

struct Trie;

class StringCounts {
 public:
  struct Count {
    u32 chars;
    int token;
  };
  StringCounts(const Trie& trie, std::size_t words, u32 longest, Escapes mode);
  // The tokens that stay in the string and read at most this many characters, including an unfinished one; null: none.
  std::shared_ptr<const Words> inside(u32 most);
  std::span<const Count> longer(u32 than) const;  // the others that stay in it
  // The tokens that leave it, with the number of characters before the quote; sorted by token.
  const std::vector<Count>& leaving() const { return leaving_; }
  std::size_t memory() const;

 private:
  std::size_t words_;
  std::vector<Count> inside_, leaving_;  // inside: by characters
  std::map<std::size_t, std::shared_ptr<const Words>> made_;
};

}  // namespace guiderail
