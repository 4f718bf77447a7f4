// A list that is usually short: its first elements lie in place, and only a longer list needs memory of its own.
// Derivatives make such lists at every byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "base/library.hpp"
#include "base/support.hpp"

namespace guiderail {

template <class T, std::size_t kFew>
class ShortVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ShortVector() = default;
  ShortVector(std::initializer_list<T> of) { append(std::span<const T>(of.begin(), of.size())); }
  explicit ShortVector(std::span<const T> of) { append(of); }
  explicit ShortVector(std::size_t size, T fill = {}) { resize(size, fill); }
  ShortVector(const ShortVector& other) { append(other); }
  ShortVector(ShortVector&& other) noexcept { swap_in(other); }
  ShortVector& operator=(ShortVector&& other) noexcept {
    if (this != &other) swap_in(other);
    return *this;
  }
  ShortVector& operator=(const ShortVector& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other);
    return *this;
  }

  T* begin() { return at_; }
  T* end() { return at_ + size_; }
  const T* begin() const { return at_; }
  const T* end() const { return at_ + size_; }
  T* data() { return at_; }
  const T* data() const { return at_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return at_[i]; }
  const T& operator[](std::size_t i) const { return at_[i]; }
  const T& front() const { return at_[0]; }
  const T& back() const { return at_[size_ - 1]; }
  bool operator==(const ShortVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  void push_back(T x) {
    if (size_ == capacity_) grow(size_ + 1);
    at_[size_++] = x;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(std::size_t size, T fill = {}) {
    if (size > capacity_) grow(size);
    if (size > size_) std::fill(at_ + size_, at_ + size, fill);
    size_ = static_cast<u32>(size);
  }
  void assign(std::size_t size, T fill) {
    size_ = 0;
    resize(size, fill);
  }
  std::size_t memory() const { return more_ ? capacity_ * sizeof(T) : 0; }  // of its own
  void append(std::span<const T> of) {                                      // must not be part of this list
    if (of.empty()) return;
    if (capacity_ - size_ < of.size()) grow(size_ + of.size());
    std::memcpy(at_ + size_, of.data(), of.size_bytes());
    size_ += static_cast<u32>(of.size());
  }
  void erase(std::size_t i) {
    std::copy(at_ + i + 1, end(), at_ + i);
    --size_;
  }
  template <class F>
  void erase_if(F needless) {
    size_ = static_cast<u32>(std::remove_if(begin(), end(), needless) - at_);
  }
  void sort_unique() {
    if (size_ < 2) return;
    std::sort(begin(), end());
    size_ = static_cast<u32>(std::unique(begin(), end()) - at_);
  }

 private:
  void grow(std::size_t least) {
    const std::size_t capacity = std::max<std::size_t>(2 * capacity_, least);
    auto more = make_uncleared<T>(capacity);
    std::memcpy(more.get(), at_, size_ * sizeof(T));
    more_ = std::move(more);
    at_ = more_.get();
    capacity_ = static_cast<u32>(capacity);
  }
  void swap_in(ShortVector& other) noexcept {
    more_ = std::move(other.more_);
    at_ = more_ ? more_.get() : few_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (!more_) std::memcpy(few_, other.few_, size_ * sizeof(T));
    other.at_ = other.few_;
    other.size_ = 0;
    other.capacity_ = kFew;
  }

  T* at_ = few_;
  u32 size_ = 0, capacity_ = kFew;
  std::unique_ptr<T[]> more_;
  T few_[kFew];
};

}  // namespace guiderail
