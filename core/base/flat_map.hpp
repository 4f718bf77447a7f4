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
    if (part.keys.empty()) return nullptr;
    const std::size_t i = part.place(key, hash);
    return part.keys[i] == key ? &part.values[i] : nullptr;
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
    parts_.each([&](const Part& part) { bytes += bytes_of(part.keys) + bytes_of(part.values); });
    return bytes;
  }

 private:
  static constexpr u64 kNone = ~u64{0};  // no key
  static u64 hash_of(u64 key) { return mix64(key ^ secrets.flat); }
  struct Part {
    PagedVector<u64> keys;
    PagedVector<Value> values;
    std::size_t count = 0;
    std::size_t place(u64 key, u64 hash) const {
      const std::size_t mask = keys.size() - 1;
      std::size_t i = hash & mask;
      while (keys[i] != key && keys[i] != kNone) i = (i + 1) & mask;
      return i;
    }
    void set(u64 key, u64 hash, Value value) {
      if (8 * (count + 1) > 5 * keys.size()) grow();  // a fuller table doubles the cost of a miss
      const std::size_t i = place(key, hash);
      count += keys[i] == kNone;
      keys[i] = key;
      values[i] = value;
    }
    void grow() {
      Part larger;
      const std::size_t slots = keys.empty() ? 64 : keys.size() * (keys.size() < 1024 ? 4 : 2);
      larger.keys.assign(slots, kNone);
      larger.values.resize(slots);
      for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] == kNone) continue;
        const std::size_t i = larger.place(keys[k], hash_of(keys[k]));
        larger.keys[i] = keys[k];
        larger.values[i] = values[k];
      }
      larger.count = count;
      *this = std::move(larger);
    }
  };
  void split() {
    Parts<Part> parts = Parts<Part>::split();
    const Part& whole = parts_.of(0);
    for (std::size_t k = 0; k < whole.keys.size(); ++k) {
      if (whole.keys[k] == kNone) continue;
      const u64 hash = hash_of(whole.keys[k]);
      parts.of(hash >> (64 - kPartBits)).set(whole.keys[k], hash, whole.values[k]);
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
