// Shared by all binding files.
#pragma once

#include <nanobind/ndarray.h>

#include "bind/converters.hpp"
#include "run/matcher.hpp"

namespace guiderail {

namespace nb = nanobind;

void bind_errors(nb::module_& m);
void bind_expressions(nb::module_& m);
void bind_vocabulary(nb::module_& m);
void bind_strategies(nb::module_& m);
void bind_spelling(nb::module_& m);
void bind_matching(nb::module_& m);
void bind_apply(nb::module_& m);
void bind_values(nb::module_& m);
void check_arguments(nb::module_& m);  // after all others

// Sets Python's error, created by the Python layer.
void raise_error(const std::string& code, const std::string& message);

// While it exists, the core may release Python's interpreter lock: before it waits for others, or when its work takes
// longer than a moment. So short calls keep the lock. It is taken again at the end, so Python objects are only made
// before and after. Free-threaded Python has no such lock; there the thread detaches, because the garbage collector
// waits until every attached thread stops.
class GilRelease final : public Patience {
 public:
  GilRelease() = default;
  ~GilRelease() override {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  void do_release() override { state_ = PyEval_SaveThread(); }
  PyThreadState* state_ = nullptr;
};

inline std::string_view view(const nb::bytes& b) { return {b.c_str(), b.size()}; }
inline nb::bytes to_bytes(std::string_view s) { return nb::bytes(s.data(), s.size()); }
inline nb::bytes to_bytes(const ByteSet& set) {
  std::string out;
  for (unsigned b = 0; b < 256; ++b)
    if (set.has(static_cast<u8>(b))) out.push_back(static_cast<char>(b));
  return to_bytes(out);
}

}  // namespace guiderail
