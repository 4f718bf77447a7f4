// Values of Python's, looked through where Python itself would take most of the time that reading a schema takes.
#include <vector>

#include "bind/bindings.hpp"

namespace guiderail {
namespace {

bool is_scalar(PyObject* value) {
  return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         value == Py_None;
}

// Whether it holds only what JSON reads into, and no more parts than `most` where it is written out: what is shared
// counts each time, and what holds itself has too many.
bool is_plain_json(nb::handle value, std::size_t most) {
  std::vector<PyObject*> found;  // they live as long as `value`, for nothing of Python runs meanwhile
  auto take = [&](PyObject* part) {
    const bool holds = PyDict_CheckExact(part) || PyList_CheckExact(part);
    if (holds) found.push_back(part);
    return holds || is_scalar(part);
  };
  if (!take(value.ptr())) return false;
  std::size_t count = 0;
  while (!found.empty()) {
    PyObject* const one = found.back();
    found.pop_back();
    const bool dict = PyDict_CheckExact(one);
    count += 1 + static_cast<std::size_t>(dict ? PyDict_Size(one) : PyList_Size(one));
    if (count > most) return false;
    if (dict) {
      PyObject *key = nullptr, *part = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(one, &at, &key, &part);)
        if (!PyUnicode_CheckExact(key) || !take(part)) return false;
    } else {
      for (Py_ssize_t at = 0, size = PyList_Size(one); at < size; ++at)
        if (!take(PyList_GetItem(one, at))) return false;
    }
  }
  return true;
}

}  // namespace

void bind_values(nb::module_& m) { m.def("is_plain_json", &is_plain_json, nb::arg("value").none(), nb::arg("most")); }

}  // namespace guiderail
