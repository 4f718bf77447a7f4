// The module: a table of contents, one function per topic. See _core.pyi for the contract.
#include "bind/bindings.hpp"
#include "base/faults.hpp"
#include "base/host.hpp"
#include "base/pages.hpp"

namespace guiderail {

// The stable interface lacks PyGILState_Check. Where it is used (from Python 3.12 on), each thread knows its own state.
static bool holds_interpreter() {
#ifdef Py_LIMITED_API
  return PyThreadState_GetDict() != nullptr;
#else
  return PyGILState_Check() != 0;
#endif
}

static void released(Host::Work work, void* of) {
  if (!holds_interpreter()) return work(of);
  PyThreadState* const state = PyEval_SaveThread();
  work(of);
  PyEval_RestoreThread(state);
}

}  // namespace guiderail

NB_MODULE(_core, m) {
  m.doc() = "The native core of guiderail.";
  nanobind::set_leak_warnings(false);  // guides that live until the interpreter ends are not leaks
  guiderail::Host::set_release(&guiderail::released);
  guiderail::bind_errors(m);
  guiderail::bind_expressions(m);
  guiderail::bind_vocabulary(m);
  guiderail::bind_strategies(m);
  guiderail::bind_spelling(m);
  guiderail::bind_matching(m);
  guiderail::bind_apply(m);
  guiderail::bind_values(m);
  guiderail::check_arguments(m);
#ifdef GUIDERAIL_FAULTS
  namespace faults = guiderail::faults;
  m.def("arm", [](bool limits, guiderail::u64 n, bool lasting, bool everywhere) {
    return faults::arm(limits ? faults::What::Limit : faults::What::Allocation, n, lasting, everywhere);
  });
  m.def("disarm", [] { return faults::arm(faults::What::Nothing, 0, false, false); });
  m.def("watch", &faults::watch);
  m.def("place_of", &faults::place_of);
  m.def("held", [] {  // blocks, bytes, bytes of pages
    guiderail::free_discarded();
    const faults::Held held = faults::held();
    return nanobind::make_tuple(held.blocks, held.bytes, guiderail::pages_in_use());
  });
#endif
}
