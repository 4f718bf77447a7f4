#include "base/yielding_mutex.hpp"

namespace guiderail {

std::atomic<std::int64_t> YieldingMutex::slice_{200'000};

// Takes the mutex when it is free, or when it is handed over.
void YieldingMutex::wait() {
  Patience::release();
  std::unique_lock lock(queue_mutex_);
  Waiter me;
  waiting_.fetch_add(1);  // before held_ is read: an unlocking thread sees this, or frees the mutex in time
  for (bool again = false;; again = true) {
    bool held = false;
    if (held_.compare_exchange_strong(held, true)) break;
    me.called = false;
    if (again)
      queue_.push_front(me);  // it keeps its place
    else
      queue_.push_back(me);
    me.woken.wait(lock, [&] { return me.given || me.called; });
    if (me.given) break;
  }
  waiting_.fetch_sub(1);
}

void YieldingMutex::wake() {
  const std::lock_guard lock(queue_mutex_);
  if (!queue_.first) return;  // the waiter is about to try itself
  Waiter& first = queue_.pop_front();
  first.called = true;
  first.woken.notify_one();
}

bool YieldingMutex::pause() {
  credit_ = kTicks;
  const bool others = waiting_.load(std::memory_order_relaxed) != 0, keeps = Patience::any();
  const std::int64_t slice = slice_.load(std::memory_order_relaxed);
  if (!others && !keeps) return false;
  if (others && slice == 0) return true;
  const Clock::time_point now = Clock::now();
  if (begun_ == Clock::time_point{}) begun_ = now;
  if (keeps && now - begun_ > kMoment) Patience::release();
  if (!others) return false;
  if (noticed_ == Clock::time_point{}) noticed_ = now;
  return now - noticed_ >= std::chrono::nanoseconds(slice);
}

void YieldingMutex::make_room() {
  Patience::release();
  {
    std::unique_lock lock(queue_mutex_);
    if (queue_.first) {
      Waiter& first = queue_.pop_front();
      Waiter me;
      queue_.push_back(me);
      waiting_.fetch_add(1);
      first.given = true;
      first.woken.notify_one();
      for (;;) {
        me.woken.wait(lock, [&] { return me.given || me.called; });
        if (me.given) break;
        bool held = false;
        if (held_.compare_exchange_strong(held, true)) break;
        me.called = false;
        queue_.push_front(me);
      }
      waiting_.fetch_sub(1);
    }
  }
  begin();
}

}  // namespace guiderail
