// lowering.hpp for JavaScript: memory for arguments, a call, its answer. For one thread.
#include "lowering.hpp"

#include <new>

#include "capi/handles.hpp"

#ifdef __EMSCRIPTEN__
#define EXPORTED(name) __attribute__((export_name(#name))) name
#else
#define EXPORTED(name) name
#endif

namespace {
std::string arguments, answer;  // NOLINT: there is one thread

template <class F>
auto guarded(F f) -> decltype(f()) {
  auto failed = [](std::string_view code, std::string_view message) {
    answer.assign(code);
    answer.push_back('\0');
    answer += message;
    return static_cast<decltype(f())>(-1);
  };
  try {
    return f();
  } catch (const guiderail::Error& error) {
    return failed(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return failed("memory", "there is no memory left");
  } catch (const std::exception& error) {
    return failed("internal", error.what());
  }
}
}  // namespace

extern "C" {

// Where to write the arguments of the next call; -1: not enough memory.
std::intptr_t EXPORTED(guiderail_lowering_room)(std::uint32_t size) {
  return guarded([&] {
    arguments.resize(size);
    return reinterpret_cast<std::intptr_t>(arguments.data());
  });
}

// -1: an error; the answer is then its code, a zero byte and the message.
double EXPORTED(guiderail_lowering_call)(std::uint32_t operation, std::uint32_t handle) {
  return guarded([&] { return guiderail::lowering_call(operation, handle, arguments, answer); });
}

const char* EXPORTED(guiderail_lowering_answer)() { return answer.data(); }
std::uint32_t EXPORTED(guiderail_lowering_answer_size)() { return static_cast<std::uint32_t>(answer.size()); }

// A gr_program, which the caller frees; -1: an error.
std::intptr_t EXPORTED(guiderail_lowering_program)(std::uint32_t handle) {
  return guarded([&] { return reinterpret_cast<std::intptr_t>(new gr_program{guiderail::lowered_program(handle)}); });
}
}
