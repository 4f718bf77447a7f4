// A large stack, for expressions that are nested deeper than the stack of any thread holds.
//
// Almost everything here recurs over the structure of expressions, whose depth grows with the text where a grammar is
// ambiguous. Work that reaches an expression of more than Limits::max_depth levels runs on a thread of its own, which
// only lends its stack: the caller waits, its count of work moves along, and errors come back. The system provides the
// pages of that stack when they are used.
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "base/support.hpp"

namespace guiderail {

class DeepStack {
 public:
  // Is this such a stack?
  static bool here() { return here_; }
  // Levels that it holds: each takes at most 5 kB, as on the stacks of other threads.
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
