// Checks of Python values for which Python itself would take most of the time of reading a schema.
#include <unordered_set>
#include <vector>

#include "bind/bindings.hpp"

namespace guiderail {
namespace {

bool is_scalar(PyObject* value) {
  return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         value == Py_None;
}

// Does it contain only what JSON reads into, and at most `most` parts when written out? Shared parts count each time,
// so a value that contains itself has too many.
bool is_plain_json(nb::handle value, std::size_t most) {
  std::vector<PyObject*> found;  // they live as long as `value`, since no Python code runs meanwhile
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

// The number of parts of a value of dicts, lists and tuples; counting stops beyond `most`. -1: some container occurs
// twice.
std::int64_t unshared_parts(nb::handle value, std::int64_t most) {
  std::vector<PyObject*> found;
  std::unordered_set<PyObject*> seen;
  auto take = [&](PyObject* part) {
    const bool holds = PyDict_Check(part) || PyList_Check(part) || PyTuple_Check(part);
    if (holds) found.push_back(part);
    return !holds || seen.insert(part).second;
  };
  take(value.ptr());
  std::int64_t count = 0;
  while (!found.empty() && count <= most) {
    PyObject* const one = found.back();
    found.pop_back();
    const bool dict = PyDict_Check(one), list = PyList_Check(one);
    const Py_ssize_t size = dict ? PyDict_Size(one) : list ? PyList_Size(one) : PyTuple_Size(one);
    count += 1 + size;
    if (dict) {
      PyObject *key = nullptr, *part = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(one, &at, &key, &part);)
        if (!take(part)) return -1;
    } else {
      for (Py_ssize_t at = 0; at < size; ++at)
        if (!take(list ? PyList_GetItem(one, at) : PyTuple_GetItem(one, at))) return -1;
    }
  }
  return count;
}

}  // namespace

void bind_values(nb::module_& m) {
  m.def("is_plain_json", &is_plain_json, nb::arg("value").none(), nb::arg("most"));
  m.def("unshared_parts", &unshared_parts, nb::arg("value").none(), nb::arg("most"));
}

}  // namespace guiderail
