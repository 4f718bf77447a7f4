// What the standard library lacks with some compilers (libc++ before 19: atomics over plain objects; before 16: arrays
// that are not cleared). The functions are those of the library where it has them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace guiderail {

// A plain number, or an enumeration, as an atomic one: read and written by several threads, elsewhere by one.
template <class T>
T load_atomic(const T& from, std::memory_order order) {
#ifdef __cpp_lib_atomic_ref
  return std::atomic_ref<T>(const_cast<T&>(from)).load(order);  // never written through
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

// An array of plain numbers that hold anything.
template <class T>
std::unique_ptr<T[]> make_uncleared(std::size_t count) {
#if defined(__cpp_lib_smart_ptr_for_overwrite)
  return std::make_unique_for_overwrite<T[]>(count);
#else
  return std::unique_ptr<T[]>(new T[count]);
#endif
}

}  // namespace guiderail
