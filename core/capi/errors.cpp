// Errors, versions, files.
#include <cerrno>
#include <cstdio>

#include "capi/handles.hpp"

#ifndef GUIDERAIL_VERSION
#define GUIDERAIL_VERSION "unknown"
#endif

namespace guiderail::capi {
namespace {

// Preallocated: when memory has run out, a message must not need any.
thread_local char last_code[64] = "", last_message[1024] = "";

template <std::size_t size>
void keep(char (&to)[size], const char* text) noexcept {
  std::size_t length = std::strlen(text);
  if (length > size - 1) {
    length = size - 1;
    while (length > 0 && is_continuation(static_cast<u8>(text[length]))) --length;  // never splits a character
  }
  std::memcpy(to, text, length);
  to[length] = '\0';
}

gr_status status_of(std::string_view code) noexcept {
  static constexpr std::pair<std::string_view, gr_status> kKinds[] = {
      {"fuel", GR_ERROR_LIMIT},      {"work", GR_ERROR_LIMIT},      {"step", GR_ERROR_LIMIT},
      {"nodes", GR_ERROR_LIMIT},     {"memory", GR_ERROR_LIMIT},    {"depth", GR_ERROR_LIMIT},
      {"states", GR_ERROR_LIMIT},    {"budget", GR_ERROR_LIMIT},    {"argument", GR_ERROR_ARGUMENT},
      {"matcher", GR_ERROR_MATCHER}, {"bitmask", GR_ERROR_BITMASK}, {"vocabulary", GR_ERROR_VOCABULARY},
      {"saved", GR_ERROR_FILE},      {"out", GR_ERROR_MEMORY},      {"internal", GR_ERROR_INTERNAL},
  };
  const std::string_view first = code.substr(0, code.find('-'));
  for (const auto& [name, status] : kKinds)
    if (name == first) return status;
  return GR_ERROR_COMPILE;
}

}  // namespace

gr_status note(const char* code, const char* message) noexcept {
  keep(last_code, code);
  keep(last_message, message);
  return status_of(last_code);
}

gr_status note_current() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return note(error.code.c_str(), error.what());
  } catch (const std::bad_alloc&) {
    return note("out-of-memory", "memory has run out; nothing has changed");
  } catch (const std::length_error&) {
    return note("out-of-memory", "this needs more memory than can be addressed; nothing has changed");
  } catch (const std::exception& error) {
    return note("internal", error.what());
  } catch (...) {
    return note("internal", "an unknown exception");
  }
}

std::string read_file(const char* path) {
  need(path, "path");
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  auto refuse = [&] { throw Error("saved-file", std::string("cannot read ") + path + ": " + std::strerror(errno)); };
  errno = 0;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path, "rb"));
  if (!file) refuse();
  std::string out;
  char part[1 << 16];
  while (const std::size_t read = std::fread(part, 1, sizeof part, file.get())) out.append(part, read);
  if (std::ferror(file.get())) refuse();
  return out;
}

Allowed allowed(const gr_limits* limits) {
  const gr_limits of = known(limits, &gr_limits_init);
  return {{of.max_nodes, of.fuel, Limits{}.max_depth, of.max_step_work}, of.max_work};
}

extern "C" {

GR_API const char* gr_error_message(void) { return last_message; }
GR_API const char* gr_error_code(void) { return last_code; }
GR_API uint32_t gr_version(void) { return GR_VERSION_MAJOR * 1000 + GR_VERSION_MINOR; }
GR_API const char* gr_version_text(void) { return GUIDERAIL_VERSION; }

}  // extern "C"

}  // namespace guiderail::capi
