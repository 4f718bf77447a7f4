// A cache by identity that keeps the values used recently. One lookup in a table without links usually suffices to
// tell that a value is missing; a list of entry numbers keeps the order. Keys of 128 bits stand for what they identify:
// see hashing.hpp for why.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/pages.hpp"

namespace guiderail {

template <class Value>
class LruCache {
 public:
  explicit LruCache(std::size_t count = 512) : slots_(std::bit_ceil(2 * count)) {}
  bool has(const Hash& key) const { return slots_[place(key)].entry != kNone; }
  // Null: the key is missing. Valid until the next change.
  Value* find(const Hash& key) {
    const u32 entry = slots_[place(key)].entry;
    if (entry == kNone) return nullptr;
    at(entry).used = true;
    return &at(entry).value;
  }
  void add(const Hash& key, Value value, std::size_t bytes) {  // the key must be missing
    u32 entry = made_;
    if (2 * (count_ + 1) > slots_.size()) enlarge();  // before anything changes, so that nothing can fail later
    if (free_.empty()) {
      if (free_.capacity() <= made_) free_.reserve(2 * made_ + 8);  // for forget()
      if (made_ % kBlock == 0) blocks_.push_back(std::make_unique<std::array<Entry, kBlock>>());
      ++made_;
    } else {
      entry = free_.back();
      free_.pop_back();
    }
    Entry& e = at(entry);
    e.key = key;
    e.value = std::move(value);
    e.bytes = bytes;
    e.used = false;
    bytes_ += bytes;
    link(entry);
    slots_[place(key)] = {entry, tag_of(key)};
    ++count_;
  }
  void note_growth(const Hash& key, std::size_t bytes) {
    if (const u32 entry = slots_[place(key)].entry; entry != kNone) {
      at(entry).bytes += bytes;
      bytes_ += bytes;
    }
  }
  // Drops values in the order in which they came, but keeps one. A value whose turn comes, and that was used since it
  // came or since its last turn, is new again, for a few values in each call. So to find a value touches no other.
  void forget(std::size_t most_bytes) {
    u32 chances = kChances;
    while (bytes_ > most_bytes && count_ > 1) {
      const u32 entry = oldest_;
      unlink(entry);
      Entry& e = at(entry);
      if (e.used && chances > 0) {
        --chances;
        e.used = false;
        link(entry);
        continue;
      }
      remove(place(e.key));
      bytes_ -= e.bytes;
      e.value = {};
      free_.push_back(entry);
      --count_;
    }
  }
  void clear() { *this = LruCache(slots_.size() / 2); }
  std::size_t bytes() const { return bytes_; }  // of the values
  std::size_t memory() const {                  // of the values, and of what finds them
    return bytes_ + bytes_of(blocks_) + blocks_.size() * block_bytes(sizeof(*blocks_[0])) + bytes_of(free_) +
           bytes_of(slots_);
  }

 private:
  static constexpr u32 kNone = 0xFFFFFFFF, kBlock = 32, kChances = 8;
  struct Entry {
    Hash key;
    Value value;
    std::size_t bytes = 0;
    u32 newer = kNone, older = kNone;
    bool used = false;
  };
  struct Slot {
    u32 entry = kNone, tag = 0;
  };

  Entry& at(u32 entry) { return (*blocks_[entry / kBlock])[entry % kBlock]; }
  const Entry& at(u32 entry) const { return (*blocks_[entry / kBlock])[entry % kBlock]; }
  static u32 tag_of(const Hash& key) { return static_cast<u32>(key.lo); }
  std::size_t place(const Hash& key) const {  // where the key is, or would be
    const std::size_t mask = slots_.size() - 1;
    const u32 tag = tag_of(key);
    std::size_t at = tag & mask;
    while (slots_[at].entry != kNone && !(slots_[at].tag == tag && this->at(slots_[at].entry).key == key))
      at = (at + 1) & mask;
    return at;
  }
  void remove(std::size_t hole) {  // and moves up the entries that it displaced
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; slots_[at].entry != kNone; at = (at + 1) & mask) {
      if (((at - slots_[at].tag) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
  }
  void enlarge() {
    PagedVector<Slot> larger(slots_.size() * 2);
    const std::size_t mask = larger.size() - 1;
    for (const Slot& slot : slots_) {
      if (slot.entry == kNone) continue;
      std::size_t at = slot.tag & mask;
      while (larger[at].entry != kNone) at = (at + 1) & mask;
      larger[at] = slot;
    }
    slots_ = std::move(larger);
  }
  void link(u32 entry) {
    Entry& e = at(entry);
    e.older = newest_;
    e.newer = kNone;
    (newest_ == kNone ? oldest_ : at(newest_).newer) = entry;
    newest_ = entry;
  }
  void unlink(u32 entry) {
    const Entry& e = at(entry);
    (e.newer == kNone ? newest_ : at(e.newer).older) = e.older;
    (e.older == kNone ? oldest_ : at(e.older).newer) = e.newer;
  }

  std::vector<std::unique_ptr<std::array<Entry, kBlock>>> blocks_;  // entries stay in place
  u32 made_ = 0;                                                    // entries
  std::vector<u32> free_;                                           // entries that are free again
  PagedVector<Slot> slots_;                                         // a power of two; half of it stays free
  u32 newest_ = kNone, oldest_ = kNone;
  std::size_t count_ = 0, bytes_ = 0;
};

}  // namespace guiderail
