// Arguments and results, between Python and C++. nanobind's own converters of texts, lists and types composed of them
// are noexcept, so they end the process when memory runs out. These raise MemoryError instead, and convert the same.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_dict.h>
#include <nanobind/stl/detail/nb_list.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "build/operations.hpp"

namespace guiderail {

// The members of a sequence other than text. Keeps them alive while they are used.
class Items {
 public:
  explicit Items(nanobind::handle of) {
    if (PyTuple_CheckExact(of.ptr())) {
      tuple_ = nanobind::borrow(of);
    } else if (PySequence_Check(of.ptr()) && !PyUnicode_Check(of.ptr()) && !PyBytes_Check(of.ptr())) {
      tuple_ = nanobind::steal(PySequence_Tuple(of.ptr()));
      if (!tuple_.is_valid()) {
        const bool memory = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
        PyErr_Clear();
        if (memory) throw std::bad_alloc();
      }
    }
    if (tuple_.is_valid()) size_ = static_cast<std::size_t>(PyTuple_Size(tuple_.ptr()));
  }
  bool is_valid() const { return tuple_.is_valid(); }
  const nanobind::object& tuple() const { return tuple_; }
  std::size_t size() const { return size_; }
  nanobind::handle operator[](std::size_t i) const { return PyTuple_GetItem(tuple_.ptr(), static_cast<Py_ssize_t>(i)); }

 private:
  nanobind::object tuple_;
  std::size_t size_ = 0;
};

// Converts an object and calls f(value); false: it is not of this type.
template <typename T, typename F>
bool converted(nanobind::handle from, u32 flags, nanobind::detail::cleanup_list* cleanup, F f) {
  nanobind::detail::make_caster<T> caster;
  if (!caster.from_python(from, nanobind::detail::flags_for_local_caster<T>(flags), cleanup) ||
      !caster.template can_cast<T>())
    return false;
  f(caster.operator nanobind::detail::cast_t<T>());
  return true;
}

// Objects of a sequence, held: the sequence itself may lose them meanwhile.
template <typename T>
struct Held {
  nanobind::object tuple;
  std::vector<T*> objects;
};

template <typename T>
concept NotANumber = !std::is_arithmetic_v<T>;

}  // namespace guiderail

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))
  bool from_python(handle from, guiderail::u32, cleanup_list*) {
    if (!PyUnicode_Check(from.ptr())) return false;
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(from.ptr(), &size);
    if (!text) {
      PyErr_Clear();
      return false;
    }
    value.assign(text, static_cast<std::size_t>(size));
    return true;
  }
  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
};

// An integer of a user's. True is none, although Python counts it among them.
template <>
struct type_caster<std::int64_t> {
  NB_TYPE_CASTER(std::int64_t, const_name("int"))
  bool from_python(handle from, guiderail::u32, cleanup_list*) noexcept {
    if (!PyLong_CheckExact(from.ptr()) && (PyBool_Check(from.ptr()) || !PyIndex_Check(from.ptr()))) return false;
    value = PyLong_AsLongLong(from.ptr());
    if (value != -1 || !PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
  }
  static handle from_cpp(std::int64_t number, rv_policy, cleanup_list*) noexcept { return PyLong_FromLongLong(number); }
};

template <typename E>
struct number_caster {
  NB_TYPE_CASTER(E, const_name("int"))
  bool from_python(handle from, guiderail::u32 flags, cleanup_list*) {
    return guiderail::converted<guiderail::u32>(from, flags, nullptr,
                                                [&](guiderail::u32 number) { value = E{number}; });
  }
  static handle from_cpp(E e, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<guiderail::u32>::from_cpp(static_cast<guiderail::u32>(e), policy, cleanup);
  }
};
template <>
struct type_caster<guiderail::Id> : number_caster<guiderail::Id> {};
template <>
struct type_caster<guiderail::LexerId> : number_caster<guiderail::LexerId> {};

template <typename T>
struct type_caster<std::vector<T>> : list_caster<std::vector<T>, T> {
  using list_caster<std::vector<T>, T>::value;
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    const guiderail::Items items(from);
    if (!items.is_valid()) return false;
    value.clear();
    value.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!guiderail::converted<T>(items[i], flags, cleanup,
                                   [&](auto&& one) { value.push_back(std::forward<decltype(one)>(one)); }))
        return false;
    return true;
  }
};

template <typename T>
struct type_caster<guiderail::Held<T>> {
  NB_TYPE_CASTER(guiderail::Held<T>, make_caster<std::vector<T*>>::Name)
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    const guiderail::Items items(from);
    return items.is_valid() && guiderail::converted<std::vector<T*>>(
                                   items.tuple(), flags, cleanup,
                                   [&](std::vector<T*>&& objects) { value = {items.tuple(), std::move(objects)}; });
  }
};

template <typename T>
struct type_caster<std::unordered_map<std::string, T>>
    : dict_caster<std::unordered_map<std::string, T>, std::string, T> {
  using dict_caster<std::unordered_map<std::string, T>, std::string, T>::value;
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    if (!PyDict_Check(from.ptr())) return false;
    value.clear();
    const object list = steal(PyDict_Items(from.ptr()));
    if (!list.is_valid()) {
      PyErr_Clear();
      throw std::bad_alloc();
    }
    const guiderail::Items items(list);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!guiderail::converted<std::pair<std::string, T>>(
              items[i], flags, cleanup, [&](std::pair<std::string, T>&& one) { value.insert(std::move(one)); }))
        return false;
    return true;
  }
};

template <typename... Ts>
struct type_caster<std::tuple<Ts...>> {
  using Tuple = std::tuple<Ts...>;
  NB_TYPE_CASTER(Tuple, const_name("tuple[") + concat(make_caster<Ts>::Name...) + const_name("]"))
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    const guiderail::Items items(from);
    if (!items.is_valid() || items.size() != sizeof...(Ts)) return false;
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return (guiderail::converted<Ts>(items[i], flags, cleanup,
                                       [&](auto&& one) { std::get<i>(value) = std::forward<decltype(one)>(one); }) &&
              ...);
    }(std::index_sequence_for<Ts...>());
  }
  template <typename T>
  static handle from_cpp(T&& from, rv_policy policy, cleanup_list* cleanup) noexcept {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      object members[] = {steal(make_caster<Ts>::from_cpp(forward_like_<T>(std::get<i>(from)), policy, cleanup))...};
      if ((!members[i].is_valid() || ...)) return handle();
      return handle(PyTuple_Pack(sizeof...(Ts), members[i].ptr()...));
    }(std::index_sequence_for<Ts...>());
  }
};

template <typename A, typename B>
struct type_caster<std::pair<A, B>> {
  using Pair = std::pair<A, B>;
  using Both = make_caster<std::tuple<A, B>>;
  NB_TYPE_CASTER(Pair, Both::Name)
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    return guiderail::converted<std::tuple<A, B>>(from, flags, cleanup, [&](std::tuple<A, B>&& both) {
      value = {std::get<0>(std::move(both)), std::get<1>(std::move(both))};
    });
  }
  template <typename T>
  static handle from_cpp(T&& from, rv_policy policy, cleanup_list* cleanup) noexcept {
    return Both::from_cpp(std::tie(from.first, from.second), policy, cleanup);
  }
};

template <typename... Ts>
struct type_caster<std::variant<Ts...>> {
  using Variant = std::variant<Ts...>;
  NB_TYPE_CASTER(Variant, union_name(make_caster<Ts>::Name...))
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    constexpr auto kConvert = static_cast<guiderail::u32>(cast_flags::convert);
    auto one_of = [&](guiderail::u32 flags) {
      return (guiderail::converted<Ts>(from, flags, cleanup,
                                       [&](auto&& one) { value = std::forward<decltype(one)>(one); }) ||
              ...);
    };
    return one_of(flags & ~kConvert) || ((flags & kConvert) && one_of(flags));
  }
  template <typename T>
  static handle from_cpp(T&& from, rv_policy policy, cleanup_list* cleanup) {
    return std::visit(
        [&](auto&& one) {
          return make_caster<decltype(one)>::from_cpp(std::forward<decltype(one)>(one), policy, cleanup);
        },
        std::forward<T>(from));
  }
};

template <guiderail::NotANumber T>
struct type_caster<std::optional<T>> : optional_caster<std::optional<T>> {
  using optional_caster<std::optional<T>>::value;
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    value.reset();
    return from.is_none() || guiderail::converted<T>(from, flags, cleanup, [&](auto&& one) {
             value.emplace(std::forward<decltype(one)>(one));
           });
  }
};

template <guiderail::NotANumber T>
struct type_caster<std::shared_ptr<T>> {
  static constexpr bool IsClass = true;
  using Caster = make_caster<T>;
  NB_TYPE_CASTER(std::shared_ptr<T>, Caster::Name)
  bool from_python(handle from, guiderail::u32 flags, cleanup_list* cleanup) {
    Caster caster;
    if (!caster.from_python(from, flags & ~static_cast<guiderail::u32>(cast_flags::convert), cleanup)) return false;
    T* const to = caster.operator T*();
    if constexpr (has_shared_from_this_v<T>)  // so that it can be freed without Python
      value = to ? std::static_pointer_cast<T>(to->weak_from_this().lock()) : nullptr;
    if (to && !value) value = std::shared_ptr<T>(to, py_deleter{from.inc_ref().ptr()});
    return true;
  }
  // An object that keeps alive what it refers to.
  static handle from_cpp(const std::shared_ptr<T>& from, rv_policy, cleanup_list* cleanup) {
    if (!from) return none().release();
    if (const handle known = Caster::from_cpp(from.get(), rv_policy::none, cleanup); known.is_valid()) return known;
    auto held = std::make_unique<std::shared_ptr<T>>(from);
    const capsule owner(held.get(), [](void* of) noexcept { delete static_cast<std::shared_ptr<T>*>(of); });
    held.release();
    return inst_reference(type<T>(), from.get(), owner).release();
  }
};

}  // namespace nanobind::detail
