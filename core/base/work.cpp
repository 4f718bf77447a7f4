#include "base/work.hpp"

namespace guiderail {

void Work::refuse(const char* what, u64 steps) {
  throw Error("step-work", std::string(what) + " takes more than max_step_work=" + std::to_string(steps) +
                               " steps of work; make the constraint simpler or less ambiguous, or raise max_step_work");
}

void Work::stop() {
  if (mine_.allowed.what) refuse(mine_.allowed.what, mine_.allowed.steps);
  throw Error("work", "reading the constraint takes more than max_work=" + std::to_string(mine_.allowed.steps) +
                          " steps of work; make the alternatives fewer or simpler, or raise max_work");
}

}  // namespace guiderail
