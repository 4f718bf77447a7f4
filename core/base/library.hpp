// Parts of the standard library that some compilers lack (libc++ before 19: atomics over plain objects; before 16:
// arrays that are not cleared). Where the library has them, its functions are used.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace guiderail {

// Reads and writes a plain number or enumeration atomically: several threads share it here, one elsewhere.
template <class T>
T load_atomic(const T& from, std::memory_order order) {
#ifdef __cpp_lib_atomic_ref
  return std::atomic_ref<T>(const_cast<T&>(from)).load(order);  // never written through this reference
#else
  T out;
  __atomic_load(&from, &out, static_cast<int>(order));
  return out;
#endif
}
template <class T>
void store_atomic(T& to, T value, std::memory_order order) {
#ifdef __cpp_lib_atomic_ref
  std::atomic_ref<T>(to).store(value, order);
#else
  __atomic_store(&to, &value, static_cast<int>(order));
#endif
}

// An array of plain numbers, not initialised.
template <class T>
std::unique_ptr<T[]> make_uncleared(std::size_t count) {
#if defined(__cpp_lib_smart_ptr_for_overwrite)
  return std::make_unique_for_overwrite<T[]>(count);
#else
  return std::unique_ptr<T[]>(new T[count]);
#endif
}

}  // namespace guiderail
