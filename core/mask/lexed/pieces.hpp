// The pieces from which masks of lexed texts are combined (see pieces.cpp and outcomes.cpp).
#pragma once

#include "mask/mask.hpp"

namespace guiderail {

constexpr u32 kInTrie = 0xFFFFFFFF;

inline constexpr u32 kNothing = 0;  // the outcome that allows no token

// The suffixes of tokens after a byte.
struct MaskBuilder::Suffixes {
  u32 node = kInTrie;                               // in the vocabulary's trie; kInTrie: below the root of
  std::shared_ptr<const ExitTrie> rest;             // this trie
  std::shared_ptr<const std::vector<int>> without;  // tokens that end this lexeme in another group
};

struct MaskBuilder::Begin {
  u8 byte;
  std::vector<Suffixes> suffixes;
  std::unordered_map<Id, std::shared_ptr<Piece>> next;  // by the state after the byte
};

struct MaskBuilder::Group {
  Lexed::LexemeEnd end;
  std::vector<int> whole;  // tokens that end with it, until they move to its bundle
  std::vector<Begin> begins;
  std::vector<u32> heavy;  // nodes above many tokens, which bytes do not share
};

struct MaskBuilder::Piece {
  std::shared_ptr<const Words> dense;
  std::vector<std::pair<u32, u32>> words;
  std::vector<std::unique_ptr<Group>> own;
  std::vector<std::shared_ptr<Piece>> parts;  // shared pieces; `dense` includes their words
  std::vector<u32> bundles;                   // its own and those of its parts
  std::vector<u32> open_nodes;
  std::vector<int> open_tokens;
  bool open = false;      // or a part is open
  std::size_t count = 0;  // maximum number of words
  u32 taken = 0;          // number of the last mask that took it
};

// What pieces and outcomes add to a mask, apart from the words on the scratch.
struct MaskBuilder::Sum {
  std::vector<u32> open_nodes;
  std::vector<int> open_tokens;
  std::vector<std::shared_ptr<const Words>> dense;  // not on the scratch
  bool blurred = false;                             // tokens are missing
};

}  // namespace guiderail
