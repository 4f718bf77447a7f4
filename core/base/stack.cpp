#include "base/stack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/support.hpp"

#if defined(_WIN32)
#include <windows.h>
#elif !defined(__EMSCRIPTEN__)
#include <pthread.h>
#endif

namespace guiderail {
namespace {

constexpr std::uintptr_t kReserve = 192 << 10;  // bytes, at most a quarter: for what is called before anyone asks again

struct Bounds {
  std::uintptr_t low = 0, high = 0;
};

Bounds bounds() {
#if defined(_WIN32)
  ULONG_PTR low = 0, high = 0;
  GetCurrentThreadStackLimits(&low, &high);
  return {low, high};
#elif defined(__APPLE__)
  const auto high = reinterpret_cast<std::uintptr_t>(pthread_get_stackaddr_np(pthread_self()));
  return {high - pthread_get_stacksize_np(pthread_self()), high};
#elif defined(__linux__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &low, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  const auto first = reinterpret_cast<std::uintptr_t>(low);
  return {first, first + size};
#else
  return {};
#endif
}

// Of this thread: below it, the stack is low. One word, since what a library keeps for each thread is scarce.
GUIDERAIL_NEAR constinit thread_local std::uintptr_t mark = 0;

}  // namespace

bool stack_is_low() {
  if (mark == 0) [[unlikely]] {
    const Bounds mine = bounds();
    mark = std::max(mine.low + std::min(kReserve, (mine.high - mine.low) / 4), std::uintptr_t{1});
  }
  const char here = 0;
  return mark - reinterpret_cast<std::uintptr_t>(&here) < kReserve;  // a stack that others made lies elsewhere
}

}  // namespace guiderail
