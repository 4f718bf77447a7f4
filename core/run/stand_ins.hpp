// Which characters may take the place of another one in all texts of a constraint.
#pragma once

#include <map>

#include "expr/expression.hpp"

namespace guiderail {

// requires: mutex held; the arena is finalized
class StandIns {
 public:
  explicit StandIns(Arena& arena);
  // Can this printable character replace the other one anywhere in any text of the constraint?
  bool replaces(u8 by, u8 byte) const { return of_[byte].has(by); }
  // Can it where `next` follows?
  bool replaces_before(u8 by, u8 byte, u8 next);

 private:
  void note(const ByteSet& leaf, bool both_ways);
  bool told_apart_before(u8 byte, u8 by, u8 next);
  bool find_apart(u8 byte, u8 by, u8 next) const;

  Arena& arena_;
  bool both_ways_ = false;
  std::array<ByteSet, 0x80> of_;             // ASCII characters that can replace this one anywhere, itself included
  std::map<std::array<u8, 3>, bool> apart_;  // what told_apart_before() returned, by byte classes
};

}  // namespace guiderail
