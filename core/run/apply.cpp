// Applies masks word by word. Nothing is done if all 32 tokens are allowed, and no logits are read if none is. The
// loops over a word have a fixed length and no branch, so that compilers vectorise them on any processor: a number is
// kept, or replaced, by a mask of its own width.
#include "run/apply.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace guiderail {
namespace {

// Spreads the low bits of a word: bit k for number k of a group.
template <class T, std::size_t N>
constexpr std::array<T, N> kBits = [] {
  std::array<T, N> bits{};
  for (std::size_t k = 0; k < N; ++k) bits[k] = static_cast<T>(T{1} << k);
  return bits;
}();

inline void select(u32* x, u32 word, u32 infinity) {
  for (std::size_t k = 0; k < 32; ++k) x[k] = (word & kBits<u32, 32>[k]) != 0 ? x[k] : infinity;
}

inline void select(u16* x, u32 word, u16 infinity) {
  for (std::size_t half = 0; half < 2; ++half) {
    const u16 bits = static_cast<u16>(word >> 16 * half);
    u16* y = x + 16 * half;
    for (std::size_t k = 0; k < 16; ++k) y[k] = static_cast<u16>(bits & kBits<u16, 16>[k]) != 0 ? y[k] : infinity;
  }
}

inline void select(u64* x, u32 word, u64 infinity) {
  std::array<std::int32_t, 32> keep;  // all ones or zeros; compilers only compare numbers of 4 bytes
  for (std::size_t k = 0; k < 32; ++k) keep[k] = (word & kBits<u32, 32>[k]) != 0 ? -1 : 0;
  for (std::size_t k = 0; k < 32; ++k) {
    const u64 wide = static_cast<u64>(std::int64_t{keep[k]});
    x[k] = (x[k] & wide) | (infinity & ~wide);
  }
}

inline u32 word_at(const char* words, std::ptrdiff_t stride, std::size_t w) {
  u32 word;
  std::memcpy(&word, words + static_cast<std::ptrdiff_t>(w) * stride, sizeof word);
  return word;
}

template <class T>
void dense(T* x, std::size_t columns, const char* words, std::ptrdiff_t stride, std::size_t covered, T infinity) {
  const std::size_t whole = covered / 32;
  for (std::size_t w = 0; w < whole; ++w) {
    const u32 word = word_at(words, stride, w);
    if (word == ~u32{0}) continue;
    if (word == 0)
      for (std::size_t k = 0; k < 32; ++k) x[32 * w + k] = infinity;
    else
      select(x + 32 * w, word, infinity);
  }
  if (const std::size_t rest = covered % 32; rest != 0) {
    const u32 word = word_at(words, stride, whole);
    for (std::size_t k = 0; k < rest; ++k)
      if (!(word >> k & 1)) x[32 * whole + k] = infinity;
  }
  std::fill(x + covered, x + columns, infinity);
}

// Numbers that are not adjacent or not aligned.
template <class T>
void sparse(char* x, std::ptrdiff_t step, std::size_t columns, const char* words, std::ptrdiff_t stride,
            std::size_t covered, T infinity) {
  auto forbid = [&](std::size_t i) { std::memcpy(x + static_cast<std::ptrdiff_t>(i) * step, &infinity, sizeof(T)); };
  u32 word = 0;
  for (std::size_t i = 0; i < covered; ++i) {
    if (i % 32 == 0) word = word_at(words, stride, i / 32);
    if (!(word >> (i % 32) & 1)) forbid(i);
  }
  for (std::size_t i = covered; i < columns; ++i) forbid(i);
}

template <class T>
void apply_as(const Logits& logits, char* x, const char* words, std::ptrdiff_t stride, std::size_t covered) {
  const T infinity = static_cast<T>(logits.infinity);
  if (logits.stride == sizeof(T) && reinterpret_cast<std::uintptr_t>(x) % alignof(T) == 0)
    dense(reinterpret_cast<T*>(x), logits.columns, words, stride, covered, infinity);
  else
    sparse(x, logits.stride, logits.columns, words, stride, covered, infinity);
}

}  // namespace

void apply_row(const Logits& logits, const Masks& masks, std::size_t row, std::size_t covered) {
  const auto at = static_cast<std::ptrdiff_t>(row);
  char* x = logits.data + at * logits.row_stride;
  const char* words = masks.data + at * masks.row_stride;
  switch (logits.size) {
    case 2: return apply_as<u16>(logits, x, words, masks.stride, covered);
    case 4: return apply_as<u32>(logits, x, words, masks.stride, covered);
    default: return apply_as<u64>(logits, x, words, masks.stride, covered);
  }
}

}  // namespace guiderail
