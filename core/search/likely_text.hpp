// A guess at how a match begins.
#pragma once

#include <string>

#include "expr/expression.hpp"

namespace guiderail {

struct Likely {
  std::size_t limit;  // in bytes; the last part may exceed it
  std::size_t work;   // how many expressions may still be examined
  std::string text{};
};
// requires: mutex held
bool likely_text(Arena& arena, Id e, Likely& to, int depth = 0);

}  // namespace guiderail
