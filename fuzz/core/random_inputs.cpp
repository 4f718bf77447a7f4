// Random inputs without coverage and without sanitizers: many more of them in the same time.
//
//   fuzz_core SECONDS [SEED]       inputs drawn from SEED on
//   fuzz_core --seed=N             the one input of this number, alone, and how to make its expression in Python
//   fuzz_core --until=N            the same after those that shared its caches
//   fuzz_core FILE…                inputs from files
#include <sys/time.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

#include "expressions.hpp"
#include "play.hpp"

using namespace guiderail;
using namespace guiderail::fuzz;

namespace {

u64 current = 0;  // the current input

u64 scramble(u64 x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

void play_seed(u64 seed) {
  std::array<u8, 48> bytes;
  u64 x = scramble(seed);
  const std::size_t size = 6 + x % 43;
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<u8>(x = scramble(x));
  play(bytes.data(), size);
}

void on_signal(int number) {
  if (number == SIGPROF) {
    std::fprintf(stderr, "\nSLOW: 64 inputs took more than 20 seconds of processor time\n");
    print_counts();
  }
  std::fprintf(stderr, "\ninput --seed=%llu\n", static_cast<unsigned long long>(current));
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***);

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  static std::array<char, 1 << 16> stack;  // a stack overflow leaves no room to report it
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGPROF}) sigaction(number, &action, nullptr);
  char* end = nullptr;
  const long seconds = argc > 1 ? std::strtol(argv[1], &end, 10) : 60;
  if (argc > 1 && std::string_view(argv[1]).starts_with("--seed=")) {
    explaining = true;
    play_seed(current = std::strtoull(argv[1] + 7, nullptr, 10));
    return 0;
  }
  if (argc > 1 && std::string_view(argv[1]).starts_with("--until=")) {
    const u64 last = std::strtoull(argv[1] + 8, nullptr, 10);
    for (current = last - last % kCacheLasts; current <= last; ++current) {
      explaining = current == last;
      play_seed(current);
    }
    return 0;
  }
  if (end && *end != 0) {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      play(reinterpret_cast<const u8*>(bytes.data()), bytes.size());
    }
    return 0;
  }
  current = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : static_cast<u64>(std::time(nullptr)) << 32;
  std::fprintf(stderr, "from --seed=%llu for %ld seconds\n", static_cast<unsigned long long>(current), seconds);
  const std::time_t stop = std::time(nullptr) + seconds;
  while (true) {
    if (current % 64 == 0) {
      if (std::time(nullptr) >= stop) break;
      const itimerval slow{{}, {20, 0}};
      setitimer(ITIMER_PROF, &slow, nullptr);
    }
    if (current % kCacheLasts == 0) forget();
    play_seed(current);
    ++current;
  }
}
