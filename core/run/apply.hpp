// Bitmasks applied to logits: -inf where the bit of a token is 0.
#pragma once

#include <cstddef>

#include "base/support.hpp"

namespace guiderail {

// Rows of logits, as unsigned numbers of their size. Strides are in bytes and may be negative.
struct Logits {
  char* data;
  std::ptrdiff_t row_stride, stride;
  std::size_t columns;
  unsigned size;  // bytes of a number: 2, 4 or 8
  u64 infinity;   // the bits of -inf
};

struct Masks {
  const char* data;
  std::ptrdiff_t row_stride, stride;
};

// Applies a mask, which has a bit for each covered column, to the first `covered` columns of a row. The other columns
// are not allowed.
void apply_row(const Logits& logits, const Masks& masks, std::size_t row, std::size_t covered);

}  // namespace guiderail
