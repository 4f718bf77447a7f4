// What a matcher has read, step by step. Histories share their common part: a copy refers to the same blocks and
// continues separately, so forking a text takes the same time at any length.
//
// Blocks form chains towards the beginning of the text, and only grow. Whoever is at a place in a block sees the steps
// before that place, and nobody changes these. The first history to continue from the end of the block claims the next
// slot; any other begins a block of its own:
//
//   [a b c d] <- [e f g . .]       text 1 ends after g, its fork after e: what the fork reads next goes into a new
//                   ^- [x . .]     block, whose parent is the second one, up to e
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "expr/node.hpp"

namespace guiderail {

class History {
 public:
  struct Step {
    Id before;           // the state in which it was read
    std::int32_t token;  // -1: a string
    u32 place;           // in canonical spelling: the place where it was read
  };

  History() = default;
  History(const History& other) noexcept : block_(other.block_), used_(other.used_) {
    if (block_) block_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  History(History&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), used_(std::exchange(other.used_, 0)) {}
  History& operator=(History other) noexcept {
    std::swap(block_, other.block_);
    std::swap(used_, other.used_);
    return *this;
  }
  ~History() { release(block_); }

  std::size_t size() const { return block_ ? block_->start + used_ : 0; }

  void push_back(Step step) {
    const bool full = block_ && used_ == block_->capacity;
    if (!block_ || full || !claim()) {
      Block* fresh = make(full ? 2 * block_->capacity : kFirst);
      fresh->parent = block_;  // now the new block holds the old one
      fresh->parent_used = used_;
      fresh->start = size();
      fresh->filled.store(1, std::memory_order_relaxed);
      block_ = fresh;
      used_ = 0;
    }
    block_->steps()[used_++] = step;
  }

  // Removes the last `count` steps and returns the first of them. 1 <= count <= size().
  Step drop(std::size_t count) {
    while (count > used_) {
      count -= used_;
      leave();
    }
    used_ -= static_cast<u32>(count);
    const Step first = block_->steps()[used_];
    if (used_ == 0) leave();
    return first;
  }

  // The token of the last step; none if there are no steps.
  std::optional<std::int32_t> last_token() const {
    if (!block_) return std::nullopt;
    return block_->steps()[used_ - 1].token;
  }

  // The tokens of the last `count` steps; of all steps if there are fewer.
  std::vector<std::int64_t> last(std::size_t count) const {
    if (count > size()) count = size();
    std::vector<std::int64_t> out(count);
    const Block* block = block_;
    for (u32 used = used_; count > 0; used = block->parent_used, block = block->parent)
      while (used > 0 && count > 0) out[--count] = block->steps()[--used].token;
    return out;
  }

  void clear() { *this = History(); }

 private:
  static constexpr u32 kFirst = 8, kMost = 512;  // steps in a block

  struct Block {
    Block* parent = nullptr;  // keeps it alive
    std::size_t start = 0;    // number of steps before this block
    u32 parent_used = 0;      // how many of its steps come before this block
    u32 capacity;
    std::atomic<u32> holders{1};
    std::atomic<u32> filled{0};  // slots claimed so far
    explicit Block(u32 capacity) : capacity(capacity) {}
    Step* steps() { return reinterpret_cast<Step*>(this + 1); }
    const Step* steps() const { return reinterpret_cast<const Step*>(this + 1); }
  };

  static Block* make(u32 capacity) {
    if (capacity > kMost) capacity = kMost;
    return new (::operator new(sizeof(Block) + capacity * sizeof(Step))) Block(capacity);
  }
  static void release(Block* block) noexcept {  // iterative: chains may be long
    while (block && block->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Block* parent = block->parent;
      block->~Block();
      ::operator delete(block);
      block = parent;
    }
  }
  void leave() {  // for the parent block
    Block* parent = block_->parent;
    const u32 used = block_->parent_used;
    if (parent) parent->holders.fetch_add(1, std::memory_order_relaxed);
    release(block_);
    block_ = parent;
    used_ = used;
  }
  // Claims the slot after the last step, unless another history continued there.
  bool claim() {
    u32 expected = used_;
    if (block_->filled.compare_exchange_strong(expected, used_ + 1, std::memory_order_relaxed)) return true;
    // If no other history holds the block, what lies there was rolled back or belongs to a finished fork.
    if (block_->holders.load(std::memory_order_acquire) != 1) return false;
    block_->filled.store(used_ + 1, std::memory_order_relaxed);
    return true;
  }

  Block* block_ = nullptr;
  u32 used_ = 0;  // steps of this text in the block; not 0 if there is a block
};

}  // namespace guiderail
