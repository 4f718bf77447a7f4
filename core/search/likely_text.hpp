// A guess at how a match begins.
#pragma once

#include <string>

#include "expr/expression.hpp"

namespace guiderail {

struct Likely {
  std::size_t limit;  // bytes; the last part may go beyond
  std::size_t work;   // expressions that may still be looked at
  std::string text{};
};
// requires: mutex held
bool likely_text(Arena& arena, Id e, Likely& to, int depth = 0);

}  // namespace guiderail
