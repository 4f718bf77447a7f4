// Sets of Unicode scalar values and their UTF-8 automata.
//
// A set is immutable and interned process-wide, so that `\w` is built once and its automaton, some 300 states of
// 512 bytes, is shared by all constraints and vocabularies. State 0 of the automaton is dead, 1 the start, 2 the end
// of a character; a character takes at most four bytes, so the automaton has no cycle.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/hashing.hpp"

namespace guiderail {

bool is_utf8(std::string_view text);
u32 count_characters(std::string_view text);  // of UTF-8

class CharSet : public std::enable_shared_from_this<CharSet> {
 public:
  using Range = std::pair<u32, u32>;  // inclusive
  using Ptr = std::shared_ptr<const CharSet>;

  static constexpr u16 kDead = 0, kStart = 1, kDone = 2;

  // Any order, overlaps allowed; surrogates and values past U+10FFFF are removed.
  static Ptr make(std::vector<Range> ranges);
  static Ptr unite(const CharSet& a, const CharSet& b);
  static Ptr intersect(const CharSet& a, const CharSet& b);
  static Ptr invert(const CharSet& a);
  static const Ptr& any();    // all scalar values
  static void forget_dead();  // drops the registry entries of sets that no longer exist

  CharSet(const CharSet&) = delete;
  CharSet& operator=(const CharSet&) = delete;
  ~CharSet();
  // The memory that all sets of the process take.
  static std::size_t all_bytes();

  const std::vector<Range>& ranges() const { return ranges_; }
  const Hash& hash() const { return hash_; }
  bool contains(u32 c) const;
  u32 size() const { return size_; }
  bool ascii_only() const { return ranges_.empty() || ranges_.back().second < 0x80; }
  bool covers(const CharSet& other) const;

  const std::vector<std::array<u16, 256>>& automaton() const {
    if (!is_built_.load(std::memory_order_acquire)) [[unlikely]]
      build_once();  // checked first: std::call_once costs more than most derivatives
    return automaton_;
  }
  const ByteSet& first() const;  // the bytes that a character of the set can begin with
  // All states of the automaton treat two bytes of one class alike.
  const std::array<u8, 256>& byte_classes() const;

 private:
  CharSet(std::vector<Range> ranges, const Hash& hash);
  static Ptr intern(std::vector<Range> normal);
  void build() const;
  void build_once() const;
  void charge(std::size_t bytes) const;

  std::vector<Range> ranges_;
  Hash hash_;
  u32 size_ = 0;
  mutable std::size_t bytes_ = 0;
  mutable std::once_flag built_;
  mutable std::atomic<bool> is_built_{false};
  mutable std::vector<std::array<u16, 256>> automaton_;
  mutable ByteSet first_;
  mutable std::array<u8, 256> classes_{};
};

}  // namespace guiderail
