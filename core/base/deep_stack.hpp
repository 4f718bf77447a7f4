// A large stack, for expressions that are nested too deeply for the stack of an ordinary thread.
//
// Almost everything here recurses over the structure of expressions. Where a grammar is ambiguous, their depth grows
// with the text. Work on an expression deeper than Limits::max_depth levels runs on a thread of its own, which only
// lends its stack: the caller waits, the count of work moves over and back, and errors reach the caller. The system
// commits the pages of that stack when they are first used.
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "base/support.hpp"

namespace guiderail {

class DeepStack {
 public:
  // Does this thread run on such a stack?
  static bool here() { return here_; }
  // How many levels the stack holds: each takes at most 5 kB, as on the stacks of other threads.
  static constexpr u32 kLevels = 80'000;

  template <class F>
  static auto run(F f) {
    using Result = decltype(f());
    if (here_) return f();
    std::optional<Result> result;
    call([&] { result.emplace(f()); });
    return std::move(*result);
  }

 private:
  static void call(const std::function<void()>& job);
  GUIDERAIL_NEAR static inline constinit thread_local bool here_ = false;
};

}  // namespace guiderail
