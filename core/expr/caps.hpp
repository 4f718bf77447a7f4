// Caps of Repeats, which masks use to cut counts: once one is reached, the result is thrown away.
#pragma once

#include "expr/expression.hpp"

namespace guiderail {

// What is found while a watch lives must not be stored if a cap was reached: whoever comes later must reach it, too.
// requires: mutex held
class CapWatch {
 public:
  explicit CapWatch(Arena& arena) : arena_(arena), before_(arena.clear_cap_hit()) {}
  ~CapWatch() { arena_.note_cap(before_); }
  CapWatch(const CapWatch&) = delete;
  CapWatch& operator=(const CapWatch&) = delete;
  bool hit() const { return arena_.cap_hit(); }

 private:
  Arena& arena_;
  const bool before_;
};

}  // namespace guiderail
