// Lists that are only appended and never move: a reader of one may add others meanwhile.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/pages.hpp"
#include "base/support.hpp"

namespace guiderail {

template <class T>
class ListPool {
 public:
  ListPool() = default;
  ~ListPool() {
    for (const Block& block : blocks_) give_pages(block.at, block.size * sizeof(T));
  }
  ListPool(const ListPool&) = delete;
  ListPool& operator=(const ListPool&) = delete;

  // Returns the place of the list. Where memory runs out, nothing changes. An empty list lies at place 0: behind a full
  // block there would be nothing to point to.
  u32 add(std::span<const T> list) {
    if (blocks_.empty() || used_ + list.size() > end_) {
      const std::size_t wanted = std::clamp<std::size_t>(chunks_.size() / 2, 1, kMostChunks);
      grow(std::max(wanted, (list.size() + kMask) >> kBits));
    }
    if (list.empty()) return 0;
    std::copy(list.begin(), list.end(), chunks_[used_ >> kBits] + (used_ & kMask));
    const std::size_t at = used_;
    used_ += list.size();
    return static_cast<u32>(at);
  }
  const T* at(u32 place) const { return chunks_[place >> kBits] + (place & kMask); }
  u32 size() const { return static_cast<u32>(used_); }
  std::size_t memory() const {
    std::size_t elements = 0;
    for (const Block& block : blocks_) elements += block.size;
    return elements * sizeof(T) + blocks_.capacity() * sizeof(Block) + chunks_.capacity() * sizeof(T*);
  }
  // Copies the first lists of another pool to the same places. Place 0 exists wherever it does there.
  void copy_first(const ListPool& from, u32 size) {
    for (std::size_t i = 0; i < from.blocks_.size() && (i == 0 || used_ < size); ++i) {
      const Block& block = from.blocks_[i];
      grow(block.size >> kBits);
      const std::size_t count = std::min<std::size_t>(block.size, size - used_);
      std::copy(block.at, block.at + count, blocks_.back().at);
      used_ += count;
    }
  }

 private:
  static constexpr u32 kBits = 10, kMask = (1u << kBits) - 1;  // a chunk is a page of 4 KB
  static constexpr std::size_t kMostChunks = 64;               // chunks of one block, for small lists
  struct Block {                                               // consecutive chunks
    T* at;
    std::size_t size;
  };
  void grow(std::size_t chunks) {
    const std::size_t size = chunks << kBits;
    if (end_ + size > 0xFFFFFFFFu) throw Error("nodes", "the constraint needs too many expressions; simplify it");
    blocks_.reserve(blocks_.size() + 1);
    chunks_.reserve(std::max(chunks_.size() + chunks, 2 * chunks_.size()));
    T* at = static_cast<T*>(take_pages(size * sizeof(T)));
    for (std::size_t i = 0; i < chunks; ++i) chunks_.push_back(at + (i << kBits));
    blocks_.push_back({at, size});
    used_ = end_;
    end_ += size;
  }

  std::vector<Block> blocks_;
  std::vector<T*> chunks_;
  std::size_t used_ = 0, end_ = 0;  // elements
};

}  // namespace guiderail
