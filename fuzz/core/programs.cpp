// Damaged program files, read through the C interface: each must give an error or a usable program.
//
//    fuzz_programs FOLDER [COUNT [SEED]]
//
// takes the files of a folder (tests/saved_cases.py writes some: see the Makefile), changes their contents in a few
// places, and repairs the checksum so that the damage is not found at once. Then it reads them. What can be read is
// compiled with a small vocabulary, and a random text is written under it: exactly what the mask allows must be
// accepted. Sanitizers detect errors; a CPU-time alarm ends a hang.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <guiderail.h>
#ifndef _WIN32
#include <sys/time.h>
#endif

#include "base/container.hpp"

namespace guiderail::fuzz {
namespace {

using Random = std::mt19937_64;

constexpr unsigned kSeconds = 60;  // of CPU time for some files; each is limited in steps, and takes far less
constexpr unsigned kFiles = 64;    // number of these files
constexpr int kTokens = 6;         // written under a readable program
constexpr int kRefused = 8;        // forbidden tokens to try before each

struct Totals {
  unsigned long long files = 0, read = 0, guides = 0, tokens = 0;
} totals;

std::string current;  // the current file, for the report of a crash
void write_down(int) {
  if (std::FILE* file = std::fopen("build/fuzz-programs-found.rail", "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fputs("took too long, or crashed: see build/fuzz-programs-found.rail\n", stderr);
  std::_Exit(1);
}

std::vector<std::string> seeds_of(const char* folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    out.emplace_back(contents_of(bytes, Saved::Program));
  }
  return out;
}

std::size_t below(Random& random, std::size_t most) { return static_cast<std::size_t>(random() % most); }

std::string bend(Random& random, std::string text, const std::vector<std::string>& seeds) {
  for (std::size_t left = 1 + below(random, 4); left > 0 && !text.empty(); --left) {
    const std::size_t at = below(random, text.size());
    const auto byte = static_cast<char>(random());
    static constexpr unsigned char kOdd[] = {0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF};
    switch (below(random, 8)) {
      case 0: text[at] = byte; break;
      case 1: text[at] = static_cast<char>(kOdd[below(random, sizeof kOdd)]); break;
      case 2: text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8))); break;
      case 3: text.erase(at, 1 + below(random, 8)); break;
      case 4: text.insert(at, 1 + below(random, 8), byte); break;
      case 5: text.insert(at, text.substr(below(random, text.size()), 1 + below(random, 24))); break;
      case 6: text.resize(at); break;
      default: {
        const std::string& other = seeds[below(random, seeds.size())];
        text.replace(at, 1 + below(random, 8), other.substr(below(random, other.size()), 1 + below(random, 24)));
      }
    }
  }
  return text;
}

gr_vocabulary* vocabulary_of_bytes() {
  std::string bytes;
  std::vector<std::uint32_t> lengths;
  for (int b = 0; b < 256; ++b) {
    bytes.push_back(static_cast<char>(b));
    lengths.push_back(1);
  }
  for (const char* text : {"{\"", "\": ", ", ", "12", "ab", "</s>", "<|end|>"}) {
    bytes += text;
    lengths.push_back(static_cast<std::uint32_t>(std::string_view(text).size()));
  }
  const std::uint32_t stop = 261, special = 262;
  gr_vocabulary_parts parts;
  gr_vocabulary_parts_init(&parts);
  parts.bytes = reinterpret_cast<const std::uint8_t*>(bytes.data());
  parts.lengths = lengths.data();
  parts.token_count = lengths.size();
  parts.stop = &stop;
  parts.stop_count = 1;
  parts.special = &special;
  parts.special_count = 1;
  gr_vocabulary* out = nullptr;
  if (gr_vocabulary_new(&parts, &out) != GR_OK) std::abort();
  return out;
}

void write_under(Random& random, const gr_program* program, const gr_vocabulary* vocabulary) {
  gr_guide* guide = nullptr;
  gr_matcher* matcher = nullptr;
  if (gr_guide_new(program, vocabulary, nullptr, &guide) != GR_OK) return;
  ++totals.guides;
  if (gr_matcher_new(guide, &matcher) != GR_OK) std::abort();
  std::vector<std::uint32_t> mask(gr_vocabulary_bitmask_words(vocabulary));
  for (int i = 0; i < kTokens; ++i) {
    if (gr_matcher_fill_bitmask(matcher, mask.data(), mask.size(), nullptr) != GR_OK) break;
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t t = 0; t < gr_vocabulary_size(vocabulary); ++t)
      if (mask[t / 32] >> (t % 32) & 1) allowed.push_back(t);
    if (allowed.empty()) break;
    bool accepted = false;
    for (int tries = 0; tries < kRefused; ++tries) {
      const auto t = static_cast<std::uint32_t>(below(random, gr_vocabulary_size(vocabulary)));
      if (mask[t / 32] >> (t % 32) & 1) continue;
      if (gr_matcher_accept_token(matcher, t, &accepted) == GR_OK && accepted) {
        std::fputs("a token that the mask forbids was accepted\n", stderr);
        write_down(0);
      }
    }
    const gr_status status = gr_matcher_accept_token(matcher, allowed[below(random, allowed.size())], &accepted);
    if (status == GR_OK && !accepted) {
      std::fputs("a token that the mask allows was refused\n", stderr);
      write_down(0);
    }
    if (status != GR_OK) break;
    ++totals.tokens;
  }
  gr_matcher_free(matcher);
  gr_guide_free(guide);
}

void play(Random& random, const std::vector<std::string>& seeds, const gr_vocabulary* vocabulary) {
  current = contained(Saved::Program, bend(random, seeds[below(random, seeds.size())], seeds));
  ++totals.files;
  gr_limits limits;
  gr_limits_init(&limits);
  limits.max_nodes = 20'000;
  limits.fuel = 2'000;
  limits.max_work = limits.max_step_work = 100'000;
  gr_program* program = nullptr;
  const gr_status status = gr_program_read(current.data(), current.size(), &limits, &program);
  if (status == GR_ERROR_INTERNAL || status == GR_ERROR_MEMORY) {
    std::fprintf(stderr, "%s\n", gr_error_message());
    write_down(0);
  }
  if (status != GR_OK) return;
  ++totals.read;
  write_under(random, program, vocabulary);
  gr_program_free(program);
}

}  // namespace
}  // namespace guiderail::fuzz

int main(int argc, char** argv) {
  using namespace guiderail::fuzz;
  if (argc < 2) return std::fputs("usage: fuzz_programs FOLDER [COUNT [SEED]]\n", stderr), 2;
  const unsigned long long count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000;
  Random random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  const std::vector<std::string> seeds = seeds_of(argv[1]);
  if (seeds.empty()) return std::fputs("no files there\n", stderr), 2;
  gr_vocabulary* vocabulary = vocabulary_of_bytes();
#ifndef _WIN32
  // On a separate stack: the other one may have overflowed.
  static char room[1 << 16];
  const stack_t stack{room, 0, sizeof room};
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = write_down;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGVTALRM, SIGFPE, SIGSEGV, SIGABRT}) sigaction(signal, &action, nullptr);
#endif
  for (unsigned long long i = 0; i < count; ++i) {
#ifndef _WIN32
    const itimerval patience{{}, {kSeconds, 0}};
    if (i % kFiles == 0) setitimer(ITIMER_VIRTUAL, &patience, nullptr);
#endif
    play(random, seeds, vocabulary);
    if ((i + 1) % 10'000 == 0)
      std::fprintf(stderr, "%llu files, %llu read, %llu guides, %llu tokens\n", totals.files, totals.read,
                   totals.guides, totals.tokens);
  }
  gr_vocabulary_free(vocabulary);
  std::printf("%llu damaged files: %llu could be read, %llu guides, %llu tokens; none crashed\n", totals.files,
              totals.read, totals.guides, totals.tokens);
}
