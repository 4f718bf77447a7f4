#include "base/faults.hpp"

#ifdef GUIDERAIL_FAULTS
#include <execinfo.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace guiderail::faults {
namespace {
std::atomic<What> armed{What::Nothing};
std::atomic<u64> seen{0}, blocks{0}, bytes{0};
u64 fatal = 0;
bool lasts = false, of_all = false;
thread_local bool mine = false;
u64* places = nullptr;  // from malloc
u64 most_places = 0;

u64 place() {  // a hash of the call stack
  constexpr int kFrames = 14;
  void* frames[kFrames];
  u64 hash = 0;
  for (int i = backtrace(frames, kFrames); i-- > 0;) hash = mix64(hash ^ reinterpret_cast<u64>(frames[i]));
  return hash;
}

bool fails(What what) {
  if (armed.load(std::memory_order_relaxed) != what || !(mine || of_all)) return false;
  const u64 number = ++seen;
  if (number <= most_places) places[number - 1] = place();
  return fatal != 0 && (number == fatal || (lasts && number > fatal));
}
}  // namespace

u64 arm(What what, u64 n, bool lasting, bool everywhere) {
  armed = What::Nothing;
  const u64 before = seen.exchange(0);
  fatal = n;
  lasts = lasting;
  of_all = everywhere;
  mine = what != What::Nothing;
  armed = what;
  return before;
}

void watch(u64 most) {
  std::free(places);
  places = most ? static_cast<u64*>(std::calloc(most, sizeof(u64))) : nullptr;
  most_places = places ? most : 0;
}

u64 place_of(u64 number) { return number - 1 < most_places ? places[number - 1] : 0; }

void on_allocation() {
  if (fails(What::Allocation)) throw std::bad_alloc();
}

bool on_limit() { return fails(What::Limit); }

bool limit_failed() { return armed.load() == What::Limit && fatal != 0 && seen.load() >= fatal; }

Held held() { return {blocks.load(), bytes.load()}; }

}  // namespace guiderail::faults

namespace {
void* taken(std::size_t size) {
  void* at = std::malloc(size ? size : 1);
  if (!at) throw std::bad_alloc();
  ++guiderail::faults::blocks;
  guiderail::faults::bytes += malloc_usable_size(at);
  return at;
}
}  // namespace

// For nanobind, which ends the process when its tables cannot grow: see CMakeLists.txt.
extern "C" void* guiderail_take(std::size_t size) { return taken(size); }

// For this module only: it has its own C++ library, so neither side frees what the other allocated.
void* operator new(std::size_t size) {
  guiderail::faults::on_allocation();
  return taken(size);
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* at) noexcept {
  if (!at) return;
  --guiderail::faults::blocks;
  guiderail::faults::bytes -= malloc_usable_size(at);
  std::free(at);
}
void operator delete[](void* at) noexcept { operator delete(at); }
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }
void operator delete[](void* at, std::size_t) noexcept { operator delete(at); }
#endif
