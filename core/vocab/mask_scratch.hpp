// A bitset of tokens while a mask is made: a shared base, and the changes to it. The few bases of recent masks
// (nothing, any text, any key) stay laid out, so a mask costs only what differs from its base, not a pass over the
// whole vocabulary.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "base/bits.hpp"
#include "base/memory.hpp"
#include "base/pages.hpp"
#include "base/support.hpp"

namespace guiderail {

using Words = PagedVector<u32>;

template <class F>
void for_each_bit(const Words& words, F f) {
  for (u32 w = 0; w < words.size(); ++w)
    for (u32 bits = words[w]; bits; bits &= bits - 1) f(32 * w + static_cast<u32>(std::countr_zero(bits)));
}

class MaskScratch {
 public:
  using Diff = std::vector<std::pair<u32, u32>>;  // word, value

  explicit MaskScratch(std::size_t words) : words_(words) {}

  // Starts a mask: nothing is allowed, and there is no base yet.
  void begin() {
    restore();
    sheet_ = nullptr;
  }
  bool touched() const { return sheet_ != nullptr; }
  const std::shared_ptr<const Words>& base() const { return sheet_ ? sheet_->base : none_; }
  void set(int token) {
    if (!sheet_) lay(nullptr);
    const u32 word = static_cast<u32>(token) >> 5;
    sheet_->words[word] |= 1u << (token & 31);
    mark(word);
  }
  void clear(int token) {
    if (!sheet_) return;
    const u32 word = static_cast<u32>(token) >> 5, bit = 1u << (token & 31);
    if (!(sheet_->words[word] & bit)) return;
    sheet_->words[word] &= ~bit;
    mark(word);
  }
  void put(u32 word, u32 value) {
    if (!sheet_) lay(nullptr);
    sheet_->words[word] = value;
    mark(word);
  }
  void unite(u32 word, u32 bits) {
    if (!sheet_) lay(nullptr);
    sheet_->words[word] |= bits;
    mark(word);
  }
  bool has(u32 token) const { return sheet_ && bit(sheet_->words, token); }
  // Adds a bitset. The first one becomes the base.
  void add(const std::shared_ptr<const Words>& dense) {
    if (!sheet_) return lay(dense);
    const u32* from = dense->data();
    u32* mine = sheet_->words.data();
    for (std::size_t i = 0; i < words_; i += kBlock) {
      const std::size_t end = std::min(i + kBlock, words_);
      u32 more = 0;
      for (std::size_t k = i; k < end; ++k) more |= from[k] & ~mine[k];
      if (!more) continue;
      for (std::size_t k = i; k < end; ++k) mine[k] |= from[k];
      mark(static_cast<u32>(i));
    }
  }
  // Keeps what a mask allows: a base (null: nothing) with other words, in order.
  void intersect(const Words* base, const Diff& diff) {
    if (sheet_) combine(base, diff, [](u32 mine, u32 allowed) { return mine & allowed; });
  }
  // Adds what a mask allows.
  void unite(const Words* base, const Diff& diff) {
    if (!sheet_) lay(nullptr);
    combine(base, diff, [](u32 mine, u32 allowed) { return mine | allowed; });
  }
  // The words in which the mask differs from its base. Valid until the next call.
  const Diff& differences() {
    diff_.clear();
    each_dirty([&](std::size_t from, std::size_t to) {
      static_assert(kBlock <= 32);
      constexpr u32 kNothing[kBlock] = {};
      const u32* mine = sheet_->words.data() + from;
      const u32* base = sheet_->base ? sheet_->base->data() + from : kNothing;
      u32 differ = 0;  // first finds these words, without branches
      for (std::size_t k = 0; k < to - from; ++k) differ |= u32{mine[k] != base[k]} << k;
      for (; differ; differ &= differ - 1) {
        const u32 k = static_cast<u32>(std::countr_zero(differ));
        diff_.push_back({static_cast<u32>(from) + k, mine[k]});
      }
    });
    return diff_;
  }
  std::size_t memory() const {
    std::size_t bytes = block_bytes(sizeof(*this)) + bytes_of(sheets_) + bytes_of(diff_);
    for (const Sheet& s : sheets_) bytes += bytes_of(s.words) + bytes_of(s.dirty);
    return bytes;
  }
  const Words* words() const { return sheet_ ? &sheet_->words : nullptr; }

 private:
  static constexpr std::size_t kBlock = 16, kSheets = 4;
  struct Sheet {
    std::shared_ptr<const Words> base;  // null: nothing
    Words words;                        // differs from the base in dirty blocks only
    std::vector<u64> dirty;
    u64 used = 0;
  };

  void mark(u32 word) { sheet_->dirty[word / (kBlock * 64)] |= u64{1} << (word / kBlock & 63); }
  // Replaces each word by what it makes with that of a mask.
  template <class F>
  void combine(const Words* base, const Diff& diff, F f) {
    u32* mine = sheet_->words.data();
    auto other = diff.begin();
    for (std::size_t i = 0; i < words_; i += kBlock) {
      const std::size_t end = std::min(i + kBlock, words_);
      u32 allowed[kBlock] = {};
      if (base) std::copy(base->data() + i, base->data() + end, allowed);
      for (; other != diff.end() && other->first < end; ++other) allowed[other->first - i] = other->second;
      u32 changed = 0;
      for (std::size_t k = i; k < end; ++k) changed |= mine[k] ^ f(mine[k], allowed[k - i]);
      if (!changed) continue;
      for (std::size_t k = i; k < end; ++k) mine[k] = f(mine[k], allowed[k - i]);
      mark(static_cast<u32>(i));
    }
  }
  template <class F>
  void each_dirty(F f) const {
    if (!sheet_) return;
    for (std::size_t i = 0; i < sheet_->dirty.size(); ++i)
      for (u64 bits = sheet_->dirty[i]; bits; bits &= bits - 1) {
        const std::size_t from = (i * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * kBlock;
        f(from, std::min(from + kBlock, words_));
      }
  }
  void restore() {
    if (!sheet_) return;
    each_dirty([&](std::size_t from, std::size_t to) {
      u32* mine = sheet_->words.data();
      if (sheet_->base)
        std::copy(sheet_->base->data() + from, sheet_->base->data() + to, mine + from);
      else
        std::fill(mine + from, mine + to, 0);
    });
    std::fill(sheet_->dirty.begin(), sheet_->dirty.end(), 0);
  }
  void lay(std::shared_ptr<const Words> base) {
    ++clock_;
    for (Sheet& s : sheets_)
      if (s.base == base) {
        s.used = clock_;
        sheet_ = &s;
        return;
      }
    Sheet* at = nullptr;
    if (sheets_.size() < kSheets) {
      if (sheets_.empty()) sheets_.reserve(kSheets);
      Sheet made;  // completed before it joins: an empty sheet would look like a blank one
      made.dirty.assign(words_ / (kBlock * 64) + 1, 0);
      made.words.resize(words_);
      at = &sheets_.emplace_back(std::move(made));
    } else {
      at = &*std::min_element(sheets_.begin(), sheets_.end(),
                              [](const Sheet& a, const Sheet& b) { return a.used < b.used; });
    }
    if (base)
      at->words = *base;
    else
      at->words.assign(words_, 0);
    at->base = std::move(base);
    at->used = clock_;
    sheet_ = at;
  }

  std::size_t words_;
  std::vector<Sheet> sheets_;
  Sheet* sheet_ = nullptr;
  u64 clock_ = 0;
  Diff diff_;
  std::shared_ptr<const Words> none_;
};

}  // namespace guiderail
