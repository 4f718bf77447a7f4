// Emptiness (see liveness.cpp).
#pragma once

#include <optional>
#include <unordered_map>

#include "expr/kinds.hpp"

namespace guiderail {

// requires: mutex held
class Liveness {
 public:
  explicit Liveness(Arena& arena) : arena_(arena) {}
  bool live(Id e);
  std::size_t memory() const { return sizeof *this + some_lengths_.memory() + bytes_of(reach_memo_); }

 private:
  struct Reach {
    u32 shortest;
    bool longer;
  };
  bool surely_live(Id e);
  bool search(Id e);
  std::optional<bool> by_length(Id e);
  Reach reach(Id e);
  u32 some_length(Id e);

  Arena& arena_;
  FlatMap<> some_lengths_;  // expression -> length of some match
  std::unordered_map<Id, Reach> reach_memo_;
};

}  // namespace guiderail
