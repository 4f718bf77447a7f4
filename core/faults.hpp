// Failures on purpose, for tests: with the CMake option GUIDERAIL_FAULTS, the n-th allocation or the n-th look at a
// limit fails. Without it nothing of this is there.
#pragma once

#include "support.hpp"

namespace guiderail::faults {

enum class What { Nothing, Allocation, Limit };

#ifdef GUIDERAIL_FAULTS
// The n-th such event of this thread from now on fails (0: none does, but they are counted). How many there were since
// the call before.
u64 arm(What what, u64 n);
void on_allocation();  // may throw std::bad_alloc
bool on_limit();       // true: behave as if it were met
#else
inline void on_allocation() {}
inline bool on_limit() { return false; }
#endif

}  // namespace guiderail::faults
