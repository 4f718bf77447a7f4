// libFuzzer's entry point, and the handling of failures.
#include <cstdio>
#include <cstdlib>

#include "play.hpp"

namespace guiderail::fuzz {

void fail(const std::string& what) {
  std::fprintf(stderr, "\nWRONG: %s\n", what.c_str());
  print_counts();
  std::abort();
}

std::string shown(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, c >= 0x20 && c < 0x7F ? "%c" : "\\x%02x", static_cast<u8>(c));
    out += buffer;
  }
  return out + "'";
}

bool is_limit(const Error& error) {
  return error.code == "fuel" || error.code == "nodes" || error.code == "depth" || error.code == "memory" ||
         error.code == "work" || error.code == "step-work";
}

}  // namespace guiderail::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit([] { guiderail::fuzz::print_counts(); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static guiderail::u64 count = 0;
  if (++count % guiderail::fuzz::kCacheLasts == 0) guiderail::fuzz::forget();
  guiderail::fuzz::play(data, size);
  return 0;
}
