// Checks of Python values for which Python itself would take most of the time of reading a schema.
#include <unordered_set>
#include <vector>

#include "bind/bindings.hpp"

namespace guiderail {
namespace {

// Dicts, lists and tuples still to be examined. The references keep them alive: another thread may remove one from its
// container.
using Found = std::vector<nb::object>;

nb::object pop(Found& found) {
  nb::object one = std::move(found.back());
  found.pop_back();
  return one;
}

bool is_scalar(PyObject* value) {
  return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         value == Py_None;
}

std::size_t size_of(PyObject* container) {
  return static_cast<std::size_t>(PyDict_Check(container)   ? PyDict_Size(container)
                                  : PyList_Check(container) ? PyList_Size(container)
                                                            : PyTuple_Size(container));
}

// f(key, part) for each part of a dict, f(nullptr, part) of a list or tuple, until one returns false. Free-threaded
// Python has the container locked meanwhile, so f must not run anything of Python's.
template <class F>
bool each_part(const nb::object& container, F f) {
  const nb::ft_object_guard lock(container);
  PyObject* const of = container.ptr();
  if (PyDict_Check(of)) {
    PyObject *key = nullptr, *part = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(of, &at, &key, &part);)
      if (!f(key, part)) return false;
    return true;
  }
  const bool list = PyList_Check(of);
  for (std::size_t i = 0, size = size_of(of); i < size; ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    if (!f(nullptr, list ? PyList_GetItem(of, at) : PyTuple_GetItem(of, at))) return false;
  }
  return true;
}

// Whether it holds only what JSON reads into, and no more parts than `most` where it is written out: what is shared
// counts each time, and what holds itself has too many.
bool is_plain_json(nb::handle value, std::size_t most) {
  Found found;
  auto take = [&](PyObject* part) {
    const bool holds = PyDict_CheckExact(part) || PyList_CheckExact(part);
    if (holds) found.push_back(nb::borrow(part));
    return holds || is_scalar(part);
  };
  if (!take(value.ptr())) return false;
  std::size_t count = 0;
  while (!found.empty()) {
    const nb::object one = pop(found);
    count += 1 + size_of(one.ptr());
    if (count > most) return false;
    if (!each_part(one,
                   [&](PyObject* key, PyObject* part) { return (!key || PyUnicode_CheckExact(key)) && take(part); }))
      return false;
  }
  return true;
}

// The number of parts of a value of dicts, lists and tuples; counting stops beyond `most`. -1: some container occurs
// twice.
std::int64_t unshared_parts(nb::handle value, std::int64_t most) {
  Found found;
  std::unordered_set<PyObject*> seen;
  auto take = [&](PyObject* part) {
    const bool holds = PyDict_Check(part) || PyList_Check(part) || PyTuple_Check(part);
    if (holds) found.push_back(nb::borrow(part));
    return !holds || seen.insert(part).second;
  };
  take(value.ptr());
  std::int64_t count = 0;
  while (!found.empty() && count <= most) {
    const nb::object one = pop(found);
    count += 1 + static_cast<std::int64_t>(size_of(one.ptr()));
    if (!each_part(one, [&](PyObject*, PyObject* part) { return take(part); })) return -1;
  }
  return count;
}

// Those of some names that are keys of a dict within a value, itself included.
nb::set keys_within(nb::handle value, const nb::tuple& names) {
  const std::vector<nb::handle> wanted(names.begin(), names.end());
  std::vector<bool> occurs(wanted.size());
  Found found;
  auto take = [&](PyObject* part) {
    if (PyDict_Check(part) || PyList_Check(part)) found.push_back(nb::borrow(part));
  };
  take(value.ptr());
  while (!found.empty()) {
    const nb::object one = pop(found);
    each_part(one, [&](PyObject* key, PyObject* part) {
      for (std::size_t i = 0; key && PyUnicode_Check(key) && i < wanted.size(); ++i)
        if (!occurs[i] && PyUnicode_Compare(key, wanted[i].ptr()) == 0) occurs[i] = true;
      take(part);
      return true;
    });
  }
  nb::set within;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (occurs[i]) within.add(wanted[i]);
  return within;
}

}  // namespace

void bind_values(nb::module_& m) {
  m.def("is_plain_json", &is_plain_json, nb::arg("value").none(), nb::arg("most"));
  m.def("unshared_parts", &unshared_parts, nb::arg("value").none(), nb::arg("most"));
  m.def("keys_within", &keys_within, nb::arg("value").none(), nb::arg("names"));
}

}  // namespace guiderail
