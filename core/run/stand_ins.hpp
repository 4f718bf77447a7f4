// Which characters may take the place of another one in all texts of a constraint.
#pragma once

#include "expr/expression.hpp"

namespace guiderail {

// of[c]: those of ASCII, such that every text remains one if c is replaced by it anywhere in it; c is among them.
// requires: mutex held
struct StandIns {
  explicit StandIns(Arena& arena);
  std::array<ByteSet, 0x80> of;

 private:
  void note(const ByteSet& leaf, bool both_ways);
};

}  // namespace guiderail
