// Failures on purpose, for tests: with the CMake option GUIDERAIL_FAULTS, the n-th allocation or the n-th look at a
// limit fails, and what the module holds of the heap is counted. Without it nothing of this is there.
#pragma once

#include "base/support.hpp"

namespace guiderail::faults {

enum class What { Nothing, Allocation, Limit };

#ifdef GUIDERAIL_FAULTS
// The n-th such event from now on fails, and with `lasting` all that follow (0: none does, but they are counted). Of
// this thread, or of all. How many there were since the call before.
u64 arm(What what, u64 n, bool lasting, bool everywhere);
// From now on tells where the first events happen: a number for who calls whom.
void watch(u64 most);
u64 place_of(u64 number);
struct Held {
  u64 blocks, bytes;
};
Held held();           // of the heap, by this module
void on_allocation();  // may throw std::bad_alloc
bool on_limit();       // true: behave as if it were met
bool limit_failed();   // did it say so, since arm()?
#else
inline void on_allocation() {}
inline bool on_limit() { return false; }
constexpr bool limit_failed() { return false; }
#endif

}  // namespace guiderail::faults
