// The opaque types of guiderail.h, and what all its functions do: reject null pointers, and turn exceptions into a
// status and a message of the thread.
#pragma once

#include <guiderail.h>

#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "build/builder.hpp"
#include "run/matcher.hpp"

struct gr_vocabulary {
  std::shared_ptr<guiderail::Vocabulary> tokens;
  std::unordered_map<std::string, guiderail::u32> names;
};

struct gr_program {
  std::shared_ptr<guiderail::Program> program;
};

struct gr_guide {
  std::shared_ptr<guiderail::Guide> guide;
};

struct gr_matcher {
  guiderail::Matcher matcher;
};

struct gr_builder {
  gr_builder(guiderail::Limits limits, guiderail::u64 work) : builder(limits, true), replay(builder), work(work) {}
  guiderail::Builder builder;
  guiderail::Replay replay;
  guiderail::u64 work;
};

namespace guiderail::capi {

gr_status note(const char* code, const char* message) noexcept;  // records what was thrown
gr_status note_current() noexcept;

template <class F>
gr_status guarded(F f) noexcept {
  try {
    f();
    return GR_OK;
  } catch (...) {
    return note_current();
  }
}

inline void need(const void* pointer, const char* what) {
  if (!pointer) throw Error("argument", std::string(what) + " is a null pointer");
}

// Copies a list that may be NULL if it is empty.
template <class T>
std::vector<T> list(const T* from, std::size_t count, const char* what) {
  if (count > 0) need(from, what);
  return count > 0 ? std::vector<T>(from, from + count) : std::vector<T>();
}

inline std::string_view text(const void* from, std::size_t size, const char* what) {
  if (size > 0) need(from, what);
  return size > 0 ? std::string_view(static_cast<const char*>(from), size) : std::string_view();
}

// Writes as much as fits; *count: the full length.
inline void write(std::string_view text, std::uint8_t* out, std::size_t room, std::size_t* count) {
  const std::size_t fits = std::min(text.size(), room);
  if (fits > 0) std::memcpy(out, text.data(), fits);
  *count = text.size();
}
inline void need_room(const std::uint8_t* out, std::size_t room, const std::size_t* count) {
  if (room > 0) need(out, "out");
  need(count, "count");
}

// The options of a caller who may have been compiled with an earlier header: fields that it does not know get defaults.
template <class T>
T known(const T* given, void (*init)(T*)) {
  T out;
  init(&out);
  if (!given) return out;
  if (given->struct_size < sizeof(std::size_t))
    throw Error("argument", "struct_size is not set; begin with the ..._init function of the struct");
  std::memcpy(&out, given, std::min(given->struct_size, sizeof(T)));
  return out;
}

struct Allowed {
  Limits limits;
  u64 work;
};
Allowed allowed(const gr_limits* limits);
std::string read_file(const char* path);

}  // namespace guiderail::capi
