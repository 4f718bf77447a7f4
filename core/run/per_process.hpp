// What has threads belongs to one process: threads do not survive a fork.
#pragma once

#ifndef _WIN32
#include <unistd.h>
#endif

#include <atomic>
#include <memory>

namespace guiderail {

inline long process_id() {
#ifdef _WIN32
  return 1;  // no fork on Windows
#else
  return static_cast<long>(getpid());
#endif
}

// The T of this process. The child of a fork gets a new one and abandons that of its parent. Without a lock, which
// another thread might hold at the time of a fork.
template <class T>
T& of_this_process() {
  struct Owned {
    long owner = process_id();
    T of{};
  };
  static std::atomic<Owned*> current{nullptr};
  Owned* known = current.load(std::memory_order_acquire);
  if (known && known->owner == process_id()) return known->of;
  auto fresh = std::make_unique<Owned>();
  if (current.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->of;
  return known->of;  // another thread was faster
}

}  // namespace guiderail
