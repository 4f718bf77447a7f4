// Tables that give equal values one small id. The hash only finds the bucket; its entries are compared in full.
#pragma once

#include <atomic>
#include <deque>

#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/pages.hpp"
#include "base/parts.hpp"

namespace guiderail {

// Which bits of a hash new tables use. All of them, except in tests: with few bits, almost every lookup meets other
// values first.
inline std::atomic<u32> bucket_bits{0xFFFFFFFF};

class IdTable {
 public:
  static constexpr u32 kNone = 0xFFFFFFFF;

  IdTable() : bits_(bucket_bits.load(std::memory_order_relaxed)) {}

  // The id that was added with this hash and that `same` accepts; kNone: there is none.
  template <class Same>
  u32 find(u64 hash, Same same) const {
    const u32 tag = static_cast<u32>(hash) & bits_;
    const PagedVector<Slot>& slots = parts_.of(tag >> (32 - kPartBits)).slots;
    if (slots.empty()) return kNone;
    const std::size_t mask = slots.size() - 1;
    for (std::size_t at = tag & mask; slots[at].id != kNone; at = (at + 1) & mask)
      if (slots[at].tag == tag && same(slots[at].id)) return slots[at].id;
    return kNone;
  }
  void add(u64 hash, u32 id) {
    const u32 tag = static_cast<u32>(hash) & bits_;
    Part* part = &parts_.of(tag >> (32 - kPartBits));
    if (part->full()) [[unlikely]] {
      make_room(hash);
      part = &parts_.of(tag >> (32 - kPartBits));
    }
    place(part->slots, {id, tag});
    ++part->count;
  }
  void remove(u64 hash, u32 id) {  // which must be there; moves up the entries that it displaced
    const u32 tag = static_cast<u32>(hash) & bits_;
    Part& part = parts_.of(tag >> (32 - kPartBits));
    PagedVector<Slot>& slots = part.slots;
    const std::size_t mask = slots.size() - 1;
    std::size_t hole = tag & mask;
    while (slots[hole].id != id) hole = (hole + 1) & mask;
    for (std::size_t at = (hole + 1) & mask; slots[at].id != kNone; at = (at + 1) & mask) {
      if (((at - slots[at].tag) & mask) < ((at - hole) & mask)) continue;
      slots[hole] = slots[at];
      hole = at;
    }
    slots[hole] = {};
    --part.count;
  }
  // Makes sure that the next add() with this hash cannot fail.
  void make_room(u64 hash) {
    const u32 tag = static_cast<u32>(hash) & bits_;
    if (parts_.whole() && parts_.of(0).count >= kMostWhole) {
      Parts<Part> split = Parts<Part>::split();
      for (const Slot& slot : parts_.of(0).slots)
        if (slot.id != kNone) {
          Part& part = split.of(slot.tag >> (32 - kPartBits));
          part.make_room(std::max(part.count + 1, 2 * (kMostWhole >> kPartBits)));  // it will rarely grow
          place(part.slots, slot);
          ++part.count;
        }
      parts_ = std::move(split);
    }
    Part& part = parts_.of(tag >> (32 - kPartBits));
    if (part.full()) part.make_room(part.count < 1024 ? 2 * (part.count + 1) : part.count + 1);
  }
  void reserve(std::size_t count) {
    if (parts_.whole()) parts_.of(0).make_room(std::min(count, kMostWhole));
  }
  void clear() { *this = IdTable(); }
  std::size_t memory() const {
    std::size_t bytes = 0;
    parts_.each([&](const Part& part) { bytes += bytes_of(part.slots); });
    return bytes + parts_.memory();
  }

 private:
  struct Slot {
    u32 id = kNone, tag = 0;
  };
  struct Part {
    PagedVector<Slot> slots;  // a power of two; half of it stays free
    std::size_t count = 0;
    bool full() const { return 2 * (count + 1) > slots.size(); }
    void make_room(std::size_t entries) {
      if (2 * entries <= slots.size()) return;
      PagedVector<Slot> larger(std::max<std::size_t>(64, std::bit_ceil(2 * entries)));
      for (const Slot& slot : slots)
        if (slot.id != kNone) place(larger, slot);
      slots = std::move(larger);
    }
  };
  static void place(PagedVector<Slot>& slots, Slot slot) {
    const std::size_t mask = slots.size() - 1;
    std::size_t at = slot.tag & mask;
    while (slots[at].id != kNone) at = (at + 1) & mask;
    slots[at] = slot;
  }

  Parts<Part> parts_;
  u32 bits_;
};

inline u64 bucket_hash(const ByteSet& set) {
  return BucketHash(set.words[0]).add(set.words[1]).add(set.words[2]).add(set.words[3]).done();
}

inline u32 id_of(const ByteSet& set, std::vector<ByteSet>& sets, IdTable& ids) {
  const u64 hash = bucket_hash(set);
  if (const u32 known = ids.find(hash, [&](u32 i) { return sets[i] == set; }); known != IdTable::kNone) return known;
  ids.make_room(hash);
  sets.push_back(set);
  ids.add(hash, static_cast<u32>(sets.size() - 1));
  return static_cast<u32>(sets.size() - 1);
}
inline IdTable ids_of(const std::vector<ByteSet>& sets) {
  IdTable ids;
  for (u32 i = 0; i < sets.size(); ++i) ids.add(bucket_hash(sets[i]), i);
  return ids;
}

// Values of a type that has a bucket_hash().
template <class T>
struct Interned {
  std::deque<T> values;  // references stay valid
  IdTable ids;
  std::size_t bytes = 0;  // that the values own
  Interned first(u32 count) const {
    Interned out;
    for (u32 i = 0; i < count; ++i) out.id(values[i]);
    return out;
  }
  u32 find(const T& value) const {  // IdTable::kNone: the value has no id yet
    return ids.find(bucket_hash(value), [&](u32 i) { return values[i] == value; });
  }
  u32 id(T value) {
    const u64 hash = bucket_hash(value);
    if (const u32 known = ids.find(hash, [&](u32 i) { return values[i] == value; }); known != IdTable::kNone)
      return known;
    const u32 id = static_cast<u32>(values.size());
    ids.make_room(hash);  // so that nothing fails once the value is stored
    const std::size_t more = bytes_of(value);
    values.push_back(std::move(value));
    ids.add(hash, id);
    bytes += more;
    return id;
  }
  std::size_t memory() const { return bytes + bytes_of(values) + ids.memory(); }
};

}  // namespace guiderail
