// The bytes that a container takes from the heap or the pages, including the allocator's overhead, but without what its
// elements own: owners of such elements add that up when they insert them.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/pages.hpp"
#include "base/short_vector.hpp"

namespace guiderail {

// The size of a heap block, as glibc rounds it: 8 bytes of its own, a multiple of 16, at least 32.
constexpr std::size_t block_bytes(std::size_t bytes) {
  return bytes == 0 ? 0 : std::max<std::size_t>(32, (bytes + 8 + 15) / 16 * 16);
}
template <class T>
constexpr std::size_t shared_bytes() {  // of what std::make_shared makes
  return block_bytes(sizeof(T) + 16);
}

template <class T>
std::size_t bytes_of(const std::vector<T>& of) {
  return block_bytes(of.capacity() * sizeof(T));
}
template <class T>
std::size_t bytes_of(const PagedVector<T>& of) {
  const std::size_t bytes = of.capacity() * sizeof(T);
  return bytes < PageAllocator<T>::kFrom ? block_bytes(bytes) : page_bytes(bytes);
}
template <class T, std::size_t kFew>
std::size_t bytes_of(const ShortVector<T, kFew>& of) {
  return block_bytes(of.memory());
}
inline std::size_t bytes_of(const std::string& of) {
  static const std::size_t in_place = std::string().capacity();
  return of.capacity() > in_place ? block_bytes(of.capacity() + 1) : 0;
}
template <class T>
std::size_t bytes_of(const std::deque<T>& of) {
  constexpr std::size_t kBlock = 512, kEach = sizeof(T) < kBlock ? kBlock / sizeof(T) : 1;
  const std::size_t blocks = of.size() / kEach + 1;
  return blocks * block_bytes(kEach * sizeof(T)) + block_bytes(std::max<std::size_t>(8, blocks + 2) * sizeof(void*));
}
// An element of a hash table has a link and its hash, one of a tree three links and a colour.
template <class K, class V, class H, class E>
std::size_t bytes_of(const std::unordered_map<K, V, H, E>& of) {
  return of.size() * block_bytes(sizeof(std::pair<const K, V>) + 2 * sizeof(void*)) +
         (of.bucket_count() > 1 ? block_bytes(of.bucket_count() * sizeof(void*)) : 0);
}
template <class K, class H, class E>
std::size_t bytes_of(const std::unordered_set<K, H, E>& of) {
  return of.size() * block_bytes(sizeof(K) + 2 * sizeof(void*)) +
         (of.bucket_count() > 1 ? block_bytes(of.bucket_count() * sizeof(void*)) : 0);
}
template <class K, class V, class C>
std::size_t bytes_of(const std::map<K, V, C>& of) {
  return of.size() * block_bytes(sizeof(std::pair<const K, V>) + 4 * sizeof(void*));
}

// A sum, and its parts if someone wants to see them.
struct Tally {
  std::vector<std::pair<const char*, std::size_t>>* parts = nullptr;
  std::size_t total = 0;
  void add(const char* name, std::size_t bytes) {
    total += bytes;
    if (parts) parts->push_back({name, bytes});
  }
};

// Counts the bytes of one object in one account as long as the object lives, whoever owns it. Copies are not counted.
class Charge {
 public:
  using Account = std::shared_ptr<std::atomic<std::size_t>>;
  Charge() = default;
  Charge(const Charge&) {}
  Charge& operator=(const Charge&) { return *this; }
  Charge(Charge&& other) noexcept : account_(std::move(other.account_)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (account_) account_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  explicit operator bool() const { return account_ != nullptr; }
  void to(Account account, std::size_t bytes) {  // once
    account_ = std::move(account);
    bytes_ = bytes;
    account_->fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  Account account_;
  std::size_t bytes_ = 0;
};

}  // namespace guiderail
