#include "base/at_fork.hpp"

#include <atomic>

#if defined(__unix__) && !defined(__EMSCRIPTEN__) || defined(__APPLE__)
#include <pthread.h>
#define GUIDERAIL_FORKS
#endif

namespace guiderail {

struct AtFork {
  static inline std::atomic<ProcessMutex*> first{nullptr};
  static inline ProcessMutex* held = nullptr;  // those that the forking thread has taken, and all after them
  static void take() {
    held = first.load(std::memory_order_acquire);
    for (ProcessMutex* one = held; one; one = one->next_) one->lock();
  }
  static void release() {
    for (ProcessMutex* one = held; one; one = one->next_) one->unlock();
  }
  static void add(ProcessMutex* one) {
    one->next_ = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(one->next_, one, std::memory_order_release)) {
    }
  }
};

ProcessMutex::ProcessMutex() {
  AtFork::add(this);
#ifdef GUIDERAIL_FORKS
  static const int registered = pthread_atfork(AtFork::take, AtFork::release, AtFork::release);
  static_cast<void>(registered);
#endif
}

}  // namespace guiderail
