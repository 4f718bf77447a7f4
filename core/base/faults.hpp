// Deliberate failures, for tests. With the CMake option GUIDERAIL_FAULTS, the n-th allocation or the n-th check of a
// limit fails, and the heap memory of this module is counted. Without it, none of this is compiled.
#pragma once

#include "base/support.hpp"

namespace guiderail::faults {

enum class What { Nothing, Allocation, Limit };

#ifdef GUIDERAIL_FAULTS
// Makes the n-th such event from now on fail; with `lasting`, all later ones too. With n = 0 none fails, but events are
// counted: those of this thread or, with `everywhere`, of all. Returns how many there were since the last call.
u64 arm(What what, u64 n, bool lasting, bool everywhere);
// Records where the first `most` events from now on happen: place_of(i) is a hash of the call stack of event i.
void watch(u64 most);
u64 place_of(u64 number);
struct Held {
  u64 blocks, bytes;
};
Held held();           // of the heap, by this module
void on_allocation();  // may throw std::bad_alloc
bool on_limit();       // true: behave as if it were met
bool limit_failed();   // has on_limit() returned true since arm()?
#else
inline void on_allocation() {}
inline bool on_limit() { return false; }
constexpr bool limit_failed() { return false; }
#endif

}  // namespace guiderail::faults
