// A cache by identity that keeps the values used recently; a list of entry numbers keeps the order. Keys of 128 bits
// stand for what they identify: see hashing.hpp for why.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/hashing.hpp"
#include "base/interned.hpp"
#include "base/memory.hpp"

namespace guiderail {

template <class Value>
class LruCache {
 public:
  bool has(const Hash& key) const { return entry_of(key) != kNone; }
  // Null: the key is missing. Valid until the next change.
  Value* find(const Hash& key) {
    const u32 entry = entry_of(key);
    if (entry == kNone) return nullptr;
    at(entry).used = true;
    return &at(entry).value;
  }
  void add(const Hash& key, Value value, std::size_t bytes) {  // the key must be missing
    u32 entry = made_;
    ids_.make_room(key.lo);  // before anything changes, so that nothing can fail later
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
    ids_.add(key.lo, entry);
    ++count_;
  }
  void note_growth(const Hash& key, std::size_t bytes) {
    if (const u32 entry = entry_of(key); entry != kNone) {
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
      ids_.remove(e.key.lo, entry);
      bytes_ -= e.bytes;
      e.value = {};
      free_.push_back(entry);
      --count_;
    }
  }
  void clear() { *this = LruCache(); }
  std::size_t bytes() const { return bytes_; }  // of the values
  std::size_t memory() const {                  // of the values, and of what finds them
    return bytes_ + bytes_of(blocks_) + blocks_.size() * block_bytes(sizeof(*blocks_[0])) + bytes_of(free_) +
           ids_.memory();
  }

 private:
  static constexpr u32 kNone = IdTable::kNone, kBlock = 32, kChances = 8;
  struct Entry {
    Hash key;
    Value value;
    std::size_t bytes = 0;
    u32 newer = kNone, older = kNone;
    bool used = false;
  };

  Entry& at(u32 entry) { return (*blocks_[entry / kBlock])[entry % kBlock]; }
  const Entry& at(u32 entry) const { return (*blocks_[entry / kBlock])[entry % kBlock]; }
  u32 entry_of(const Hash& key) const {
    return ids_.find(key.lo, [&](u32 entry) { return at(entry).key == key; });
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
  IdTable ids_;                                                     // finds the entry of a key
  u32 newest_ = kNone, oldest_ = kNone;
  std::size_t count_ = 0, bytes_ = 0;
};

}  // namespace guiderail
