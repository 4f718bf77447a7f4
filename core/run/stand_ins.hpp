// Which characters may take the place of another one in all texts of a constraint.
#pragma once

#include "expr/expression.hpp"

namespace guiderail {

// of[c]: the ASCII characters that can replace c anywhere in any text of the constraint, c included.
// requires: mutex held
struct StandIns {
  explicit StandIns(Arena& arena);
  std::array<ByteSet, 0x80> of;

 private:
  void note(const ByteSet& leaf, bool both_ways);
};

}  // namespace guiderail
