// Saved vocabularies (docs/program_format.md).
#pragma once

#include <unordered_map>

#include "vocab/vocabulary.hpp"

namespace guiderail {

struct VocabularyParts {
  std::string data;
  std::vector<u32> offsets{0};
  std::vector<u8> special;  // by token; 1: no text
  u32 size = 0;
  std::vector<u32> stops;
  std::unordered_map<std::string, u32> names;  // of special tokens
};

// Reads a file written by Vocabulary.save (Python); Error("saved-file") says what is wrong with it.
VocabularyParts read_vocabulary(std::string_view file);

}  // namespace guiderail
