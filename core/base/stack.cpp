#include "base/stack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

}  // namespace

bool stack_is_low() {
  static thread_local const Bounds mine = bounds();
  const char here = 0;
  const auto at = reinterpret_cast<std::uintptr_t>(&here);
  if (at < mine.low || at >= mine.high) return false;
  return at - mine.low < std::min(kReserve, (mine.high - mine.low) / 4);
}

}  // namespace guiderail
