#include "faults.hpp"

#ifdef GUIDERAIL_FAULTS
#include <cstdlib>
#include <new>

namespace guiderail::faults {
namespace {
thread_local What armed = What::Nothing;
thread_local u64 left = 0, seen = 0;

bool fails(What what) {
  if (armed != what) return false;
  ++seen;
  return left > 0 && --left == 0;
}
}  // namespace

u64 arm(What what, u64 n) {
  const u64 before = seen;
  armed = what;
  left = n;
  seen = 0;
  return before;
}

void on_allocation() {
  if (fails(What::Allocation)) throw std::bad_alloc();
}

bool on_limit() { return fails(What::Limit); }

}  // namespace guiderail::faults

// Of this module only; what it frees may come from elsewhere, so both are malloc's.
void* operator new(std::size_t size) {
  guiderail::faults::on_allocation();
  if (void* at = std::malloc(size ? size : 1)) return at;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
#endif
