// The pieces that masks of lexed texts are put together from (see pieces.cpp and outcomes.cpp).
#pragma once

#include "mask/mask.hpp"

namespace guiderail {

constexpr u32 kInTrie = 0xFFFFFFFF;

// What tokens continue with after a byte.
struct MaskBuilder::Suffixes {
  u32 node = kInTrie;                               // of the vocabulary's trie; else
  std::shared_ptr<const ExitTrie> rest;             // its root
  std::shared_ptr<const std::vector<int>> without;  // tokens that end this lexeme in another group
};

struct MaskBuilder::Begin {
  u8 byte;
  std::vector<Suffixes> suffixes;
  std::size_t tokens = 0;
  std::unordered_map<Id, std::shared_ptr<Piece>> next;  // by the state after the byte
};

struct MaskBuilder::Group {
  Lexed::LexemeEnd end;
  std::vector<int> whole;  // tokens that end with it, until its bundle has them
  std::vector<Begin> begins;
  std::vector<u32> heavy;  // nodes with much below them, which share nothing between bytes
};

struct MaskBuilder::Piece {
  std::shared_ptr<const Words> dense;
  std::vector<std::pair<u32, u32>> words;
  std::vector<std::unique_ptr<Group>> own;
  std::vector<std::shared_ptr<Piece>> parts;  // pieces that other ones share; their words are among the dense ones
  std::vector<u32> bundles;                   // of its own and of its parts
  std::vector<u32> open_nodes;
  std::vector<int> open_tokens;
  bool open = false;      // or a part is
  std::size_t count = 0;  // words, at most
  u32 taken = 0;          // the mask it was taken for last
};

// A mask being put together.
struct MaskBuilder::Sum {
  Words words;
  std::vector<u32> open_nodes;
  std::vector<int> open_tokens;
  std::vector<std::shared_ptr<const Words>> dense;  // not yet among the words
  bool blurred = false;                             // tokens are missing
};

}  // namespace guiderail
