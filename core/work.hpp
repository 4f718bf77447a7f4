// Work counted in steps and not in seconds: what one call may cost. A step is an expression made or an operand handled,
// some 0.1 µs; whoever loops over anything else counts that. The count is the thread's, so it does not matter who else
// reads the same arena meanwhile.
#pragma once

#include "faults.hpp"

namespace guiderail {

class Work {
 public:
  struct Allowed {
    u64 until;  // the count that may be reached
    u64 steps;  // how many that were when the limit was set
  };
  static void spend(u64 steps = 1) {
    if ((spent_ += steps) > allowed_.until || faults::on_limit()) stop();
  }
  static u64 spent() { return spent_; }
  static void recount(u64 spent) {
    spent_ = spent;
    spend(0);
  }
  // From now on this thread may spend so many steps, and no more than it might before. Returns what it might.
  static Allowed limit(u64 steps) {
    const Allowed before = allowed_;
    if (steps < allowed_.until - spent_) allowed_ = {spent_ + steps, steps};
    return before;
  }
  static void restore(Allowed before) { allowed_ = before; }

 private:
  [[noreturn]] static void stop();
  static inline constinit thread_local u64 spent_ = 0;
  static inline constinit thread_local Allowed allowed_{~u64{0}, 0};
};

}  // namespace guiderail
