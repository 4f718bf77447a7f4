// The module: a table of contents. One function a topic; see _core.pyi for the contract.
#include "bindings.hpp"
#include "faults.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The native core of guiderail.";
  nanobind::set_leak_warnings(false);  // guides that live until the interpreter ends are no leak
  guiderail::bind_errors(m);
  guiderail::bind_expressions(m);
  guiderail::bind_vocabulary(m);
  guiderail::bind_matching(m);
  guiderail::bind_apply(m);
#ifdef GUIDERAIL_FAULTS
  using guiderail::faults::What;
  m.def("arm", [](bool limits, guiderail::u64 n) { return arm(limits ? What::Limit : What::Allocation, n); });
  m.def("disarm", [] { return guiderail::faults::arm(What::Nothing, 0); });
#endif
}
