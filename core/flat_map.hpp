// Integers by integers, in one array without links: for memos that are asked at every byte.
#pragma once

#include "hashing.hpp"
#include "memory.hpp"
#include "pages.hpp"

namespace guiderail {

class FlatMap {
 public:
  // Null: there is none. Valid until the next change.
  const u32* find(u64 key) const {
    if (keys_.empty()) return nullptr;
    const std::size_t i = place(key);
    return keys_[i] == key ? &values_[i] : nullptr;
  }
  void set(u64 key, u32 value) {
    if (4 * (size_ + 1) > 3 * keys_.size()) grow();
    const std::size_t i = place(key);
    size_ += keys_[i] == kNone;
    keys_[i] = key;
    values_[i] = value;
  }
  void clear() { *this = FlatMap(); }
  std::size_t size() const { return size_; }
  std::size_t memory() const { return bytes_of(keys_) + bytes_of(values_); }

 private:
  static constexpr u64 kNone = ~u64{0};  // no key
  std::size_t place(u64 key) const {
    const std::size_t mask = keys_.size() - 1;
    std::size_t i = mix64(key ^ secrets.flat) & mask;
    while (keys_[i] != key && keys_[i] != kNone) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    FlatMap larger;
    const std::size_t count = keys_.empty() ? 64 : keys_.size() * 2;
    larger.keys_.assign(count, kNone);
    larger.values_.resize(count);
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      if (keys_[k] == kNone) continue;
      const std::size_t i = larger.place(keys_[k]);
      larger.keys_[i] = keys_[k];
      larger.values_[i] = values_[k];
    }
    larger.size_ = size_;
    *this = std::move(larger);
  }

  PagedVector<u64> keys_;
  PagedVector<u32> values_;
  std::size_t size_ = 0;
};

// A bounded memo that forgets by age: of two such maps the older one goes when the younger is full. So what was asked
// for among the last `most` entries is always known, and no work is lost all at once.
class AgingMap {
 public:
  // Valid until the next call.
  const u32* find(u64 key) {
    if (const u32* known = young_.find(key)) return known;
    const u32* known = old_.find(key);
    if (!known) return nullptr;
    young_.set(key, *known);
    return known;
  }
  void set(u64 key, u32 value, std::size_t most) {
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
  FlatMap young_, old_;
};

}  // namespace guiderail
