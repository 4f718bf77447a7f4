// Hashes under keys that are drawn when the library is loaded and never leave the process.
//
//   BucketHash  cheap; finds a bucket of a table (interned.hpp), whose entries are then compared in full
//   Identity    128 bits; stands for a structure where there is nothing to compare it with: between arenas
//
// Why masks may be shared by identity alone. The hash covers everything that defines a structure, and encodes it in one
// way only: every list and text is preceded by its length, every expression by its kind. SipHash under a secret key is
// a pseudo-random function (Aumasson & Bernstein 2012; the tables of Rust and Python use SipHash-1-3, too). Nobody
// outside sees an identity, nor anything that depends on one, except for the time that a shared mask saves, which tells
// only whether two structures are equal. So an attacker who chooses the structures does no better than chance: among q
// structures, two share an identity with a probability of at most q² / 2^129; for q = 2^40 that is 2^-49.
#pragma once

#include <algorithm>
#include <span>

#include "base/support.hpp"

namespace guiderail {

// C rounds for each word, D at the end. Out is u64, or Hash for 128 bits.
template <int C, int D, class Out>
class SipHash {
  static constexpr bool kWide = sizeof(Out) == 16;

 public:
  constexpr SipHash(u64 k0, u64 k1)
      : v0_(k0 ^ 0x736f6d6570736575ULL),
        v1_(k1 ^ 0x646f72616e646f6dULL ^ (kWide ? 0xee : 0)),
        v2_(k0 ^ 0x6c7967656e657261ULL),
        v3_(k1 ^ 0x7465646279746573ULL) {}

  constexpr SipHash& add(u64 word) {
    v3_ ^= word;
    rounds(C);
    v0_ ^= word;
    bytes_ += 8;
    return *this;
  }
  constexpr SipHash& add(const Hash& part) { return add(part.lo).add(part.hi); }
  SipHash& add(std::string_view text) {
    add(u64{text.size()});
    for (std::size_t i = 0; i < text.size(); i += 8) {
      u64 word = 0;
      std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
      add(word);
    }
    return *this;
  }
  // The result does not depend on the order of the parts.
  SipHash& add_unordered(std::span<Hash> parts) {
    std::sort(parts.begin(), parts.end(),
              [](const Hash& a, const Hash& b) { return a.lo != b.lo ? a.lo < b.lo : a.hi < b.hi; });
    add(u64{parts.size()});
    for (const Hash& part : parts) add(part);
    return *this;
  }
  // `tail`: the last bytes of a text whose length is not a multiple of eight.
  constexpr Out done(u64 tail = 0, unsigned tail_bytes = 0) const {
    SipHash end = *this;
    end.add((bytes_ + tail_bytes) << 56 | tail);
    end.v2_ ^= kWide ? 0xee : 0xff;
    end.rounds(D);
    const u64 first = end.v0_ ^ end.v1_ ^ end.v2_ ^ end.v3_;
    if constexpr (kWide) {
      end.v1_ ^= 0xdd;
      end.rounds(D);
      return {first, end.v0_ ^ end.v1_ ^ end.v2_ ^ end.v3_};
    } else {
      return first;
    }
  }

 private:
  constexpr void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0_ += v1_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v3_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ += v3_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ += v1_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v2_ = std::rotl(v2_, 32);
    }
  }
  u64 v0_, v1_, v2_, v3_, bytes_ = 0;
};

struct Secrets {
  u64 identity[2], bucket, flat;
};
extern const Secrets secrets;

// What an identity is of, so that identities of two kinds of things never coincide. Expressions add their kind.
enum class Of : u64 { Expression, Shared, Rule, CharSet, Atom, StringSummary, Head, Text };

class Identity : public SipHash<1, 3, Hash> {
 public:
  explicit Identity(Of what) : SipHash(secrets.identity[0], secrets.identity[1]) { add(static_cast<u64>(what)); }
};

class BucketHash {
 public:
  explicit BucketHash(u64 first) : hash_(mix64(first ^ secrets.bucket)) {}
  BucketHash& add(u64 word) {
    hash_ = mix64(hash_ ^ word);
    return *this;
  }
  BucketHash& add(std::span<const u32> list) {
    std::size_t i = 0;
    for (; i + 1 < list.size(); i += 2) add(u64{list[i]} << 32 | list[i + 1]);
    return add(i < list.size() ? list[i] : 0).add(list.size());
  }
  template <class E>
    requires std::is_enum_v<E>
  BucketHash& add(std::span<const E> list) {
    std::size_t i = 0;
    auto word = [&](std::size_t at) { return u64{static_cast<u32>(list[at])}; };
    for (; i + 1 < list.size(); i += 2) add(word(i) << 32 | word(i + 1));
    return add(i < list.size() ? word(i) : 0).add(list.size());
  }
  u64 done() const { return hash_; }

 private:
  u64 hash_;
};

}  // namespace guiderail
