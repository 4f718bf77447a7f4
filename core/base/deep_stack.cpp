#include "base/deep_stack.hpp"

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
#define GUIDERAIL_ONE_THREAD
#elif defined(_WIN32)
#include <process.h>
#include <windows.h>
#else
#include <pthread.h>
#endif

#include "base/work.hpp"
#include "base/yielding_mutex.hpp"

namespace guiderail {
namespace {

[[noreturn]] void no_stack() {
  throw Error("depth",
              "the text is nested too deeply: this process cannot get a larger stack; raise its memory limit, or "
              "flatten the constraint");
}

using Job = const std::function<void()>;

#ifdef GUIDERAIL_ONE_THREAD
void on_thread(Job&) { no_stack(); }
#else
constexpr std::size_t kBytes = sizeof(void*) < 8 ? 64u << 20 : 512u << 20;

#ifdef _WIN32
unsigned __stdcall start(void* given) {
  (*static_cast<Job*>(given))();
  return 0;
}

void on_thread(Job& job) {
  const auto thread = reinterpret_cast<HANDLE>(_beginthreadex(nullptr, static_cast<unsigned>(kBytes), start,
                                                              const_cast<void*>(static_cast<const void*>(&job)),
                                                              STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr));
  if (!thread) no_stack();
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}
#else
void* start(void* given) {
  (*static_cast<Job*>(given))();
  return nullptr;
}

void on_thread(Job& job) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0) no_stack();
  const bool made = pthread_attr_setstacksize(&attributes, kBytes) == 0 &&
                    pthread_create(&thread, &attributes, start, const_cast<void*>(static_cast<const void*>(&job))) == 0;
  pthread_attr_destroy(&attributes);
  if (!made) no_stack();
  pthread_join(thread, nullptr);
}
#endif
#endif
}  // namespace

void DeepStack::call(const std::function<void()>& job) {
  Patience::release();
  std::exception_ptr error;
  const Work::Account account = Work::account();
  Work::Account spent = account;
  const std::function<void()> whole = [&] {
    here_ = true;
    Work::take_over(account);
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    spent = Work::account();
  };
  on_thread(whole);
  Work::take_over({spent.spent, account.allowed});
  if (error) std::rethrow_exception(error);
}

}  // namespace guiderail
