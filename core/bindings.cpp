// The module: a table of contents. One function a topic; see _core.pyi for the contract.
#include "bindings.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The native core of guiderail.";
  guiderail::bind_errors(m);
  guiderail::bind_expressions(m);
  guiderail::bind_vocabulary(m);
  guiderail::bind_matching(m);
}
