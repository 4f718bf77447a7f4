// One input: limits, a vocabulary, an expression, texts, and a walk with everything a matcher offers on its way.
#pragma once

#include "input.hpp"
#include "run/matcher.hpp"

namespace guiderail::fuzz {

struct Counts {
  u64 inputs = 0;    // given to play()
  u64 compiled = 0;  // of these, those that were not refused
  u64 judged = 0;    // texts that the oracle and the core were asked about
  u64 masks = 0;     // compared with what accepting each token says
  u64 bits = 0;      // of these masks
  u64 walks = 0;     // under a budget, to their end
};

void play(const u8* data, std::size_t size);
// Empties the caches of the vocabularies. Inputs share masks through them, so what an input finds may depend on those
// before it: they are emptied after so many.
constexpr u32 kCacheLasts = 512;
void forget();
const Counts& counts();
void print_counts();

// Vocabularies live as long as the process, for masks are shared through them; their caches are emptied now and then.
constexpr u32 kVocabularies = 5;
const std::shared_ptr<Vocabulary>& vocabulary(u32 index);
const std::unordered_map<std::string, u32>& symbols(u32 index);
bool has_all_bytes(u32 index);

std::string shown(std::string_view text);
// Errors that a sound constraint may end in when it has few limits, or a budget that nothing was promised for.
bool is_limit(const Error& error);

}  // namespace guiderail::fuzz
