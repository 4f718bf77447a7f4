// What the calling process holds during a call, in practice Python's interpreter lock.
//
// A function that may take long declares it by a Patience. A destructor cannot, because any reference may be the last.
// So it asks the host.
#pragma once

#include <atomic>

namespace guiderail {

class Host {
 public:
  using Work = void (*)(void*);
  // Releases what this thread holds, calls work(of), and takes it again.
  using Release = void (*)(Work work, void* of);
  static void set_release(Release release) { release_.store(release); }
  // The host knows nothing of this thread.
  static void set_absent() { absent_ = true; }
  template <class F>
  static void released(F f) {
    if (const Release release = absent_ ? nullptr : release_.load())
      release([](void* of) { (*static_cast<F*>(of))(); }, &f);
    else
      f();
  }

 private:
  static inline std::atomic<Release> release_{nullptr};
  static inline thread_local bool absent_ = false;
};

}  // namespace guiderail
