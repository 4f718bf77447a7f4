// Sets of small numbers.
#pragma once

#include <vector>

#include "base/support.hpp"

namespace guiderail {

using Bits = std::vector<u64>;
inline bool bit(const Bits& bits, u32 i) { return bits[i >> 6] >> (i & 63) & 1; }
inline void set_bit(Bits& bits, u32 i) { bits[i >> 6] |= u64{1} << (i & 63); }

}  // namespace guiderail
