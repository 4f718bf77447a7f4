// Bitmasks applied to logits: -inf where the bit of a token is 0.
#pragma once

#include <cstddef>

#include "base/support.hpp"

namespace guiderail {

// Rows of logits, seen as unsigned numbers of their size, and of masks. Strides in bytes, of any sign.
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

// In one row: the first `covered` columns by the mask, the others are not allowed. The mask has a bit for each covered
// column.
void apply_row(const Logits& logits, const Masks& masks, std::size_t row, std::size_t covered);

}  // namespace guiderail
