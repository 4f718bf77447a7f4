// A large table in parts, chosen by some bits of the hash. A growing table copies all its entries; for a million
// entries, that takes longer than a mask may. The parts grow one by one.
#pragma once

#include <cstddef>
#include <vector>

#include "base/memory.hpp"

namespace guiderail {

constexpr unsigned kPartBits = 6;
constexpr std::size_t kMostWhole = 8192;  // entries above which a table is split: that takes 0.2 ms, once

template <class Part>
class Parts {
 public:
  static Parts split() {
    Parts out;
    out.more_.resize(std::size_t{1} << kPartBits);
    return out;
  }
  bool whole() const { return more_.empty(); }
  Part& of(std::size_t part) { return more_.empty() ? one_ : more_[part]; }
  const Part& of(std::size_t part) const { return more_.empty() ? one_ : more_[part]; }
  template <class F>
  void each(F f) const {
    f(one_);
    for (const Part& part : more_) f(part);
  }
  std::size_t memory() const { return bytes_of(more_); }

 private:
  Part one_;
  std::vector<Part> more_;
};

}  // namespace guiderail
