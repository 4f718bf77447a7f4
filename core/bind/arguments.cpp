// Turns arguments of wrong types into an error of guiderail's, with a code, instead of nanobind's TypeError. Every
// function and method of the module is called through an object that only examines the error.
#include "bind/bindings.hpp"

#include <structmember.h>  // needs Python.h

namespace guiderail {
namespace {

struct Checked {
  PyObject_HEAD PyObject* of;  // nanobind's function
  vectorcallfunc called, inner;
};
PyObject* bound_method = nullptr;  // types.MethodType
PyTypeObject* checked_type = nullptr;

// The first name in "ndarray, kwargs = { index: int, row: int }" that "(bitmask: object, row: int = 0)" lacks.
std::string_view unknown_name(std::string_view given, const std::string& takes) {
  constexpr std::string_view kNamed = "kwargs = { ";
  const std::size_t begin = given.rfind(kNamed);
  if (begin == given.npos) return {};
  given.remove_prefix(begin + kNamed.size());
  for (std::size_t colon; (colon = given.find(": ")) != given.npos;) {
    const std::string_view name = given.substr(0, colon);
    const std::string known = std::string(name) + ": ";
    if (takes.find('(' + known) == takes.npos && takes.find(", " + known) == takes.npos) return name;
    const std::size_t comma = given.find(", ");
    if (comma == given.npos) break;
    given.remove_prefix(comma + 2);
  }
  return {};
}

// "name(): incompatible function arguments. The following argument types are supported:\n    1. name(self, arg: int, /)
// -> bool\n\nInvoked with types: Matcher, str"
std::string explained(std::string_view message) {
  constexpr std::string_view kSays = "(): incompatible function arguments", kGiven = "\nInvoked with types: ";
  const std::size_t name_end = message.find(kSays), given_at = message.rfind(kGiven);
  if (name_end == message.npos || given_at == message.npos) return {};
  const std::string_view name = message.substr(0, name_end);
  std::string_view rest = message.substr(0, given_at), given = message.substr(given_at + kGiven.size());
  std::string takes;
  bool method = false;
  for (;;) {
    const std::size_t line = rest.find("\n    ");
    if (line == rest.npos) break;
    rest.remove_prefix(line + 1);
    const std::string_view one = rest.substr(0, rest.find('\n'));
    const std::size_t open = one.find('('), close = one.rfind(") -> ");
    if (open == one.npos || close == one.npos || close < open) continue;
    std::string_view list = one.substr(open + 1, close - open - 1);
    if (list.starts_with("self")) {
      method = true;
      list.remove_prefix(std::min(list.size(), list.find(", ") == list.npos ? list.size() : list.find(", ") + 2));
    }
    if (list.ends_with(", /")) list.remove_suffix(3);
    if (list == "/") list = {};
    if (list.starts_with("arg: ")) list.remove_prefix(5);  // nanobind's name for what has none
    if (!takes.empty()) takes += " or ";
    takes += '(';
    takes += list;
    takes += ')';
  }
  std::string_view self;
  if (method) {
    const std::size_t next = given.find(", ");
    self = given.substr(0, next);
    self.remove_prefix(self.rfind('.') + 1);
    given.remove_prefix(next == given.npos ? given.size() : next + 2);
  }
  std::string text(name == "__init__" ? self : name);
  if (const std::string_view unknown = unknown_name(given, takes); !unknown.empty())
    return text + " has no argument '" + std::string(unknown) + "'; it takes " + takes;
  text += " takes " + takes + ", and was given (" + std::string(given) + ')';
  if (takes.find("int") != takes.npos && given.find("int") != given.npos) text += "; an integer has at most 64 bits";
  return text;
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Checked* checked = reinterpret_cast<Checked*>(self);
  PyObject* result = checked->inner(checked->of, args, count, names);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  try {
    nb::python_error raised;
    const std::string text = explained(nb::str(raised.value()).c_str());
    if (text.empty())
      raised.restore();
    else
      raise_error("argument", text);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object) {
    Py_INCREF(self);
    return self;
  }
  return PyObject_CallFunctionObjArgs(bound_method, self, object, nullptr);
}

PyObject* attribute(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<Checked*>(self)->of, name);
}

void forget(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Checked*>(self)->of);
  PyObject_Free(self);
  Py_DECREF(type);
}

nb::object checked(nb::handle function) {
  nb::object made = nb::steal(PyType_GenericAlloc(checked_type, 0));
  if (!made.is_valid()) throw nb::python_error();
  auto* fields = reinterpret_cast<Checked*>(made.ptr());
  fields->of = function.inc_ref().ptr();
  fields->called = &call;
#if defined(Py_LIMITED_API) || defined(PYPY_VERSION)
  fields->inner = &PyObject_Vectorcall;
#else
  fields->inner = PyVectorcall_Function(function.ptr());  // all functions of nanobind have one
#endif
  return made;
}

bool is_of(nb::handle value, const char* type) {
  return std::string_view(nb::str(value.type().attr("__name__")).c_str()) == type;
}
nb::dict copy_of(nb::handle mapping) {
  return nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(mapping));
}

}  // namespace

void check_arguments(nb::module_& m) {
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Checked, called), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(&bind)},
                                {Py_tp_getattro, reinterpret_cast<void*>(&attribute)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&forget)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec{"guiderail._core.function", sizeof(Checked), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  bound_method = nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  checked_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!checked_type) throw nb::python_error();
  for (auto [name, value] : copy_of(m.attr("__dict__"))) {
    if (is_of(value, "nb_func")) {
      m.attr(name) = checked(value);
    } else if (nb::isinstance<nb::type_object>(value) && nb::type_check(value)) {
      for (auto [method, of] : copy_of(value.attr("__dict__"))) {
        const std::string_view called = nb::borrow<nb::str>(method).c_str();
        if (is_of(of, "nb_method") && (called == "__init__" || !called.starts_with("__"))) {
          nb::object one = checked(of);
          if (PyObject_SetAttr(value.ptr(), method.ptr(), one.ptr()) != 0) throw nb::python_error();
        }
      }
    }
  }
}

}  // namespace guiderail
