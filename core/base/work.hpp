// Work counted in steps, not in seconds: it bounds the cost of one call. A step is an expression made, an operand
// handled or a few trie nodes walked, about 0.1 µs. Other loops count their own rounds. The count belongs to the
// thread, so it does not matter who else reads the same arena meanwhile.
//
// There are two limits: that of a compilation, and that of one step of a text (a mask, or a token read). A cache hit
// costs nothing. So a step may take less because of others, but never more than where nothing is cached.
#pragma once

#include "base/faults.hpp"

namespace guiderail {

class Work {
 public:
  struct Allowed {
    u64 until;                   // the count that must not be exceeded
    u64 steps;                   // the limit in steps, as it was set
    const char* what = nullptr;  // that is being made, for one step of a text; null: a compilation
  };
  class Step;
  class Compilation;
  struct Account {  // of a thread
    u64 spent;
    Allowed allowed;
  };
  static void spend(u64 steps = 1) {
    if ((mine_.spent += steps) > mine_.allowed.until || faults::on_limit()) [[unlikely]]
      stop();
  }
  static u64 spent() { return mine_.spent; }
  static void recount(u64 spent) {
    mine_.spent = spent;
    spend(0);
  }
  // From now on this thread may spend at most this many steps, within its previous limit. Returns that limit.
  static Allowed limit(u64 steps, const char* what = nullptr) {
    const Allowed before = mine_.allowed;
    const u64 left = before.until > mine_.spent ? before.until - mine_.spent : 0;
    if (steps < left) mine_.allowed = {mine_.spent + steps, steps, what};
    return before;
  }
  static void restore(const Allowed& before) { mine_.allowed = before; }
  static Account account() { return mine_; }
  static void take_over(const Account& of) { mine_ = of; }

  [[noreturn]] static void refuse(const char* what, u64 steps);  // one step of a text takes more

 private:
  [[noreturn]] static void stop();
  GUIDERAIL_NEAR static inline constinit thread_local Account mine_{0, {~u64{0}, 0, nullptr}};
};

// While it lives, this thread makes `what` for one step of a text.
class Work::Step {
 public:
  // `named`: the limit that the error message names.
  Step(u64 steps, const char* what, u64 named) : before_(limit(steps, what)) {
    if (decides()) mine_.allowed.steps = named;
  }
  Step(u64 steps, const char* what) : Step(steps, what, steps) {}
  ~Step() { restore(before_); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  // Is this limit the first to be reached, and not one around it?
  bool decides() const { return mine_.allowed.until != before_.until; }

 private:
  const Allowed before_;
};

// While it lives, this thread compiles a constraint.
class Work::Compilation {
 public:
  explicit Compilation(u64 steps) : before_(limit(steps)) {}
  ~Compilation() { restore(before_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

 private:
  const Allowed before_;
};

}  // namespace guiderail
