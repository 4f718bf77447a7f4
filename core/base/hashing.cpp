#include "base/hashing.hpp"

#include <random>

namespace guiderail {
namespace {

Secrets draw() {
  std::random_device device;
  auto word = [&] { return u64{device()} << 32 | device(); };
  return {{word(), word()}, word(), word()};
}

// The test vectors of the reference implementation: the bytes 0, 1, 2, … under a key of the bytes 0 to 15.
template <int C, int D, class Out>
constexpr Out of_counting(unsigned count) {
  SipHash<C, D, Out> hash(0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL);
  u64 word = 0;
  for (unsigned i = 0; i < count; ++i) {
    word |= u64{i & 0xFF} << (8 * (i % 8));
    if (i % 8 == 7) {
      hash.add(word);
      word = 0;
    }
  }
  return hash.done(word, count % 8);
}
static_assert(of_counting<2, 4, u64>(0) == 0x726fdb47dd0e0e31ULL);
static_assert(of_counting<2, 4, u64>(8) == 0x93f5f5799a932462ULL);
static_assert(of_counting<2, 4, u64>(15) == 0xa129ca6149be45e5ULL);
static_assert(of_counting<2, 4, Hash>(0) == Hash{0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL});
static_assert(of_counting<2, 4, Hash>(1) == Hash{0x44af996bd8c187daULL, 0x45fc229b11597634ULL});
static_assert(of_counting<1, 3, u64>(0) == 0xabac0158050fc4dcULL);

}  // namespace

const Secrets secrets = draw();

}  // namespace guiderail
