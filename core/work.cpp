#include "work.hpp"

namespace guiderail {

void Work::stop() {
  throw Error("work", "this takes more than max_work=" + std::to_string(allowed_.steps) +
                          " steps of work; make the alternatives fewer or simpler, or raise max_work");
}

}  // namespace guiderail
