// One input: limits, a vocabulary, an expression, texts, and a walk with all operations of a matcher.
#pragma once

#include "input.hpp"
#include "run/matcher.hpp"

namespace guiderail::fuzz {

struct Counts {
  u64 inputs = 0;    // passed to play()
  u64 compiled = 0;  // of these, those that were not rejected
  u64 judged = 0;    // texts for which the oracle and the core were compared
  u64 masks = 0;     // compared with accepting each token
  u64 bits = 0;      // of these masks
  u64 walks = 0;     // within a budget, to their end
};

void play(const u8* data, std::size_t size);
// Empties the caches of the vocabularies after this many inputs. Inputs share masks through the vocabularies, so what
// an input finds may depend on earlier ones.
constexpr u32 kCacheLasts = 512;
void forget();
const Counts& counts();
void print_counts();

// Vocabularies live as long as the process, because inputs share masks through them; their caches are emptied
// regularly.
constexpr u32 kVocabularies = 5;
const std::shared_ptr<Vocabulary>& vocabulary(u32 index);
const std::unordered_map<std::string, u32>& symbols(u32 index);
bool has_all_bytes(u32 index);

std::string shown(std::string_view text);
// Errors that a sound constraint may raise with few limits, or with a budget that nothing promised.
bool is_limit(const Error& error);

}  // namespace guiderail::fuzz
