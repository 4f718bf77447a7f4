// Small things that everything shares: typed errors, byte sets, the basis of hashes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// For thread-local data that hot loops read: at a fixed place of the thread, without a call. Small data only, since the
// C library reserves little such room for modules that are loaded late. C libraries other than glibc reserve none.
#if defined(__GLIBC__) && (defined(__GNUC__) || defined(__clang__))
#define GUIDERAIL_NEAR [[gnu::tls_model("initial-exec")]]
#else
#define GUIDERAIL_NEAR
#endif

namespace guiderail {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// An error with a stable, machine-readable code; the Python layer maps codes to its classes.
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message) : std::runtime_error(message), code(std::move(code)) {}
  std::string code;
};

constexpr u32 kInf = 0xFFFFFFFF;   // no upper bound
constexpr u32 kNone = 0xFFFFFFFF;  // the index of nothing

// Does a byte of UTF-8 continue a character, rather than begin one?
constexpr bool is_continuation(u8 byte) { return (byte & 0xC0) == 0x80; }

// Saturating sums and products of counts: "no bound" stays "no bound".
inline u32 add_sat(u32 a, u32 b) { return a == kInf || b == kInf || a > kInf - 1 - b ? kInf : a + b; }
inline u32 mul_sat(u32 a, u32 b) {
  if (a == 0 || b == 0) return 0;
  const u64 product = u64{a} * b;
  return a == kInf || b == kInf || product >= kInf ? kInf : static_cast<u32>(product);
}

template <class T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// A set of byte values, 256 bits.
struct ByteSet {
  std::array<u64, 4> words{};

  bool has(u8 b) const { return (words[b >> 6] >> (b & 63)) & 1; }
  void add(u8 b) { words[b >> 6] |= u64{1} << (b & 63); }
  void remove(u8 b) { words[b >> 6] &= ~(u64{1} << (b & 63)); }
  void add_range(unsigned lo, unsigned hi) {  // inclusive
    for (unsigned b = lo; b <= hi; ++b) add(static_cast<u8>(b));
  }
  bool contains(const ByteSet& o) const {
    return !((o.words[0] & ~words[0]) | (o.words[1] & ~words[1]) | (o.words[2] & ~words[2]) | (o.words[3] & ~words[3]));
  }
  bool any() const { return (words[0] | words[1] | words[2] | words[3]) != 0; }
  int count() const {
    return std::popcount(words[0]) + std::popcount(words[1]) + std::popcount(words[2]) + std::popcount(words[3]);
  }
  u8 least() const {  // requires: there is one
    std::size_t w = 0;
    while (words[w] == 0) ++w;
    return static_cast<u8>(64 * w + static_cast<std::size_t>(std::countr_zero(words[w])));
  }
  ByteSet& operator|=(const ByteSet& o) {
    for (int i = 0; i < 4; ++i) words[i] |= o.words[i];
    return *this;
  }
  ByteSet& operator&=(const ByteSet& o) {
    for (int i = 0; i < 4; ++i) words[i] &= o.words[i];
    return *this;
  }
  bool operator==(const ByteSet&) const = default;
  static ByteSet all() {
    ByteSet s;
    s.words.fill(~u64{0});
    return s;
  }
};

// An identity of 128 bits (see hashing.hpp).
struct Hash {
  u64 lo = 0, hi = 0;
  bool operator==(const Hash&) const = default;
};

inline u64 mix64(u64 x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

struct HashHasher {
  std::size_t operator()(const Hash& h) const { return static_cast<std::size_t>(h.lo); }
};

}  // namespace guiderail
