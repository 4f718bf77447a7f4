// A map from integers to small values in one array without links, for memos that are looked up at every byte.
#pragma once

#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/pages.hpp"
#include "base/parts.hpp"

namespace guiderail {

template <class Value = u32>
class FlatMap {
 public:
  // Null: the key is missing. Valid until the next change.
  const Value* find(u64 key) const {
    const u64 hash = hash_of(key);
    const Part& part = parts_.of(hash >> (64 - kPartBits));
    if (part.slots.empty()) return nullptr;
    const Slot& slot = part.slots[part.place(key, hash)];
    return slot.key == key ? &slot.value : nullptr;
  }
  void set(u64 key, Value value) {
    const u64 hash = hash_of(key);
    if (parts_.whole() && size_ >= kMostWhole) split();
    Part& part = parts_.of(hash >> (64 - kPartBits));
    const std::size_t before = part.count;
    part.set(key, hash, value);
    size_ += part.count - before;
  }
  void clear() { *this = FlatMap(); }
  std::size_t size() const { return size_; }
  std::size_t memory() const {
    std::size_t bytes = parts_.memory();
    parts_.each([&](const Part& part) { bytes += bytes_of(part.slots); });
    return bytes;
  }

 private:
  static constexpr u64 kNone = ~u64{0};  // no key
  static u64 hash_of(u64 key) { return mix64(key ^ secrets.flat); }
  struct Slot {  // one line of the processor's cache has both
    u64 key = kNone;
    Value value{};
  };
  struct Part {
    PagedVector<Slot> slots;
    std::size_t count = 0;
    std::size_t place(u64 key, u64 hash) const {
      const std::size_t mask = slots.size() - 1;
      std::size_t i = hash & mask;
      while (slots[i].key != key && slots[i].key != kNone) i = (i + 1) & mask;
      return i;
    }
    void set(u64 key, u64 hash, Value value) {
      if (8 * (count + 1) > 5 * slots.size()) grow();  // a fuller table doubles the cost of a miss
      Slot& slot = slots[place(key, hash)];
      count += slot.key == kNone;
      slot = {key, value};
    }
    void grow() {
      Part larger;
      larger.slots.resize(slots.empty() ? 64 : slots.size() * (slots.size() < 1024 ? 4 : 2));
      for (const Slot& slot : slots)
        if (slot.key != kNone) larger.slots[larger.place(slot.key, hash_of(slot.key))] = slot;
      larger.count = count;
      *this = std::move(larger);
    }
  };
  void split() {
    Parts<Part> parts = Parts<Part>::split();
    for (const Slot& slot : parts_.of(0).slots) {
      if (slot.key == kNone) continue;
      const u64 hash = hash_of(slot.key);
      parts.of(hash >> (64 - kPartBits)).set(slot.key, hash, slot.value);
    }
    parts_ = std::move(parts);
  }

  Parts<Part> parts_;
  std::size_t size_ = 0;
};

// A bounded memo that forgets by age. It holds two maps: when the younger is full, it replaces the older. So the last
// `most` entries that were used are always known, and no work is lost all at once.
template <class Value = u32>
class AgingMap {
 public:
  // Valid until the next call.
  const Value* find(u64 key) {
    if (const Value* known = young_.find(key)) return known;
    const Value* known = old_.find(key);
    if (!known) return nullptr;
    young_.set(key, *known);
    return known;
  }
  void set(u64 key, Value value, std::size_t most) {
    if (young_.size() >= most) {
      old_ = std::move(young_);
      young_.clear();
    }
    young_.set(key, value);
  }
  void clear() {
    young_.clear();
    old_.clear();
  }
  std::size_t memory() const { return young_.memory() + old_.memory(); }

 private:
  FlatMap<Value> young_, old_;
};

}  // namespace guiderail
