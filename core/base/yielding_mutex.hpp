// A mutex whose holder can let others in while it continues to work.
//
// An arena is read and grown under one mutex. Most of this takes microseconds, but a mask or a search may take seconds.
// So long work calls due() now and then. Once others have waited for a slice of time, it makes room: they get the mutex
// one after the other, in the order in which they came, and then it returns to the holder that made room. Such a holder
// must expect that expressions and memos were added meanwhile (see Arena::make_room).
//
// A thread may hold something else that others need, in practice Python's interpreter lock. It declares this by a
// Patience, which makes it release the lock before it waits, or when its work takes longer than a moment.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/support.hpp"

namespace guiderail {

// Lives on the stack of one thread. While it lives, code on this thread may release what the thread holds.
class Patience {
 public:
  Patience() : outer_(mine) { mine = this; }
  virtual ~Patience() { mine = outer_; }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  // The innermost Patience of this thread releases what it holds, unless it already has.
  static void release() {
    if (mine && !mine->released_) {
      mine->released_ = true;
      mine->do_release();
    }
  }
  // Does this thread hold anything to release?
  static bool any() { return mine && !mine->released_; }

 private:
  virtual void do_release() = 0;
  GUIDERAIL_NEAR static inline constinit thread_local Patience* mine = nullptr;
  Patience* const outer_;
  bool released_ = false;
};

class YieldingMutex {
 public:
  void lock() {
    bool held = false;
    if (!held_.compare_exchange_strong(held, true)) wait();
    begin();
  }
  bool try_lock() {
    bool held = false;
    if (!held_.compare_exchange_strong(held, true)) return false;
    begin();
    return true;
  }
  void unlock() {
    held_.store(false);
    if (waiting_.load() != 0) wake();
  }
  // The rest is for the holder. Is it time to call pause()? Almost free: ask in every loop that may be long.
  bool due() { return waiting_.load(std::memory_order_relaxed) != 0 || --credit_ == 0; }
  // Releases what the thread holds if its moment is over. True: others have waited for a slice, so make room.
  bool pause();
  // Lets in those who wait, and returns when it is this thread's turn again.
  void make_room();

  // How long others wait before a holder makes room, for all such mutexes. 0: not at all (for tests).
  static void set_slice(std::chrono::nanoseconds slice) { slice_.store(slice.count(), std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr u32 kTicks = 8;  // calls of due() between two readings of the clock
  static constexpr auto kMoment = std::chrono::microseconds(100);
  struct Waiter {
    std::condition_variable woken;
    bool given = false;   // this waiter has the mutex
    bool called = false;  // the mutex is free: try again
    Waiter* next = nullptr;
  };
  // A list of waiters, which live on the stacks of their threads: waiting needs no memory.
  struct Queue {
    Waiter *first = nullptr, *last = nullptr;
    void push_back(Waiter& one) {
      one.next = nullptr;
      (first ? last->next : first) = &one;
      last = &one;
    }
    void push_front(Waiter& one) {
      one.next = first;
      if (!first) last = &one;
      first = &one;
    }
    Waiter& pop_front() {
      Waiter& one = *first;
      first = one.next;
      return one;
    }
  };
  void begin() {
    credit_ = kTicks;
    begun_ = noticed_ = {};
  }
  void wait();
  void wake();

  static std::atomic<std::int64_t> slice_;  // nanoseconds
  std::atomic<bool> held_{false};
  std::atomic<u32> waiting_{0};
  // Of the holder:
  u32 credit_ = kTicks;
  Clock::time_point begun_{}, noticed_{};  // when it began; when it first saw others wait
  std::mutex queue_mutex_;                 // for the queue; never held for long
  Queue queue_;
};

}  // namespace guiderail
