#include "base/pages.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/at_fork.hpp"
#include "base/faults.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace guiderail {
namespace {

constexpr std::size_t kSmall = 4096, kLarge = 2u << 20;  // pages

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

#ifdef __linux__
char* map(std::size_t size, bool large) {
  const std::size_t all = size + kLarge;  // a large page may begin anywhere in the first part
  void* got = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  char* from = static_cast<char*>(got);
  char* at = reinterpret_cast<char*>(rounded(reinterpret_cast<std::size_t>(from), kLarge));
  if (at != from) munmap(from, static_cast<std::size_t>(at - from));
  if (char* end = at + size; end != from + all) munmap(end, static_cast<std::size_t>(from + all - end));
  if (large) madvise(at, size, MADV_HUGEPAGE);  // only a hint: without it, the pages are small
  return at;
}
void unmap(char* at, std::size_t size) { munmap(at, size); }
#else
char* map(std::size_t size, bool) { return static_cast<char*>(::operator new(size, std::align_val_t{kSmall})); }
void unmap(char* at, std::size_t) { ::operator delete(at, std::align_val_t{kSmall}); }
#endif

// Blocks come in size classes, four for each power of two: 4, 8, 12, 16, 20, 24, 28, 32, 40, 48 … KB. A freed block
// serves the next request of its class. A region without used blocks returns to the system once such regions exceed
// kMostIdle.
class Regions {
 public:
  void* take(std::size_t bytes) {
    const std::size_t kind = kind_of(bytes);
    std::lock_guard lock(mutex_);
    if (!free_[kind]) {
      // Large pages only for large blocks: otherwise a caller would wait for a page of which little is used (see
      // reserve()).
      if (left(current_) < size_of(kind)) grow(size_of(kind), size_of(kind) >= kLarge);
      cut(kind);
    }
    Block* block = free_[kind];
    free_[kind] = block->next;
    Region& region = region_of(block)->second;
    if (region.taken++ == 0) idle_ -= region.size;
    in_use_ += size_of(kind);
    return block;
  }
  void give(void* at, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t kind = kind_of(bytes);
    in_use_ -= size_of(kind);
    shelve(at, kind);
    const auto region = region_of(at);
    const std::size_t size = region->second.size;
    if (--region->second.taken != 0) return;
    idle_ += size;
    if (idle_ > kMostIdle) release(region);
  }
  static std::size_t bytes_of(std::size_t bytes) { return size_of(kind_of(bytes)); }
  std::size_t in_use() {
    std::lock_guard lock(mutex_);
    return in_use_;
  }
  // Returns unused regions, and the pages of free blocks in other regions, to the system.
  void trim() {
    std::lock_guard lock(mutex_);
    for (auto it = regions_.begin(); it != regions_.end();) {
      const auto region = it++;
      if (region->second.taken == 0) release(region);
    }
    if (spare_) unmap(std::exchange(spare_, nullptr), kLarge);
#ifdef __linux__
    for (std::size_t kind = 1; kind < kKinds; ++kind)
      for (Block* block = free_[kind]; block; block = block->next)  // all but the page that holds the link
        madvise(reinterpret_cast<char*>(block) + kSmall, size_of(kind) - kSmall, MADV_DONTNEED);
#endif
  }
  void reserve(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (left(current_) < bytes) {
      const char* const cleared = spare_;
      grow(bytes, true);
      if (current_->first != cleared) clear(current_->first, current_->second.size);
    }
    if (left(current_) < 2 * bytes && !spare_ && !clearing_) clear_spare();
  }

 private:
  static constexpr std::size_t kMostIdle = 16u << 20;  // bytes of unused regions that are kept
  static constexpr std::size_t kKinds = 192;
  struct Region {
    std::size_t size, used, taken;  // bytes, bytes cut into blocks, blocks in use
  };
  using Map = std::map<char*, Region>;
  struct Block {  // that is free
    Block* next;
  };

  static std::size_t kind_of(std::size_t bytes) {  // the smallest that is large enough
    const std::size_t last = (std::max<std::size_t>(bytes, 1) - 1) / kSmall;
    if (last < 4) return last;
    const auto high = static_cast<std::size_t>(std::bit_width(last)) - 1;
    return 4 * (high - 1) + (last >> (high - 2) & 3);
  }
  static void clear(volatile char* at, std::size_t size) {  // for the first time: the system does it
    for (std::size_t i = 0; i < size; i += kSmall) at[i] = 0;
  }
  // Clears the next region in a thread. A large page takes 0.2 ms, and 5 ms in a virtual machine that has to get it
  // from its host.
  void clear_spare() {
    static const unsigned cores = std::thread::hardware_concurrency();
    if (cores < 2) return;
    clearing_ = true;
    try {
      std::thread([this] {
        char* made = nullptr;
        try {
          made = map(kLarge, true);
          clear(made, kLarge);
        } catch (const std::bad_alloc&) {  // then whoever needs memory finds out
        }
        std::lock_guard lock(mutex_);
        spare_ = made;
        clearing_ = false;
      }).detach();
    } catch (...) {  // the system has no more threads
      clearing_ = false;
    }
  }
  static std::size_t size_of(std::size_t kind) {
    return kind < 4 ? (kind + 1) * kSmall : ((kind & 3) + 5) * kSmall << (kind / 4 - 1);
  }
  Map::iterator region_of(void* at) { return --regions_.upper_bound(static_cast<char*>(at)); }
  std::size_t left(Map::iterator region) const {
    return region == regions_.end() ? 0 : region->second.size - region->second.used;
  }
  void release(Map::iterator region) {  // none of its blocks is in use
    const std::size_t size = region->second.size;
    idle_ -= size;
    const char *from = region->first, *to = from + size;
    for (Block*& first : free_)
      for (Block** link = &first; *link;) {
        const char* block = reinterpret_cast<const char*>(*link);
        if (block >= from && block < to)
          *link = (*link)->next;
        else
          link = &(*link)->next;
      }
    if (current_ == region) current_ = regions_.end();
    unmap(region->first, size);
    regions_.erase(region);
  }
  void shelve(void* at, std::size_t kind) noexcept { free_[kind] = new (at) Block{free_[kind]}; }
  void cut(std::size_t kind) {
    Region& region = current_->second;
    shelve(current_->first + region.used, kind);
    region.used += size_of(kind);
  }
  // A new region with room for this many bytes; the rest of the current one becomes free blocks.
  void grow(std::size_t bytes, bool large) {
    while (left(current_) >= kSmall) {
      std::size_t kind = kind_of(left(current_));
      if (size_of(kind) > left(current_)) --kind;
      cut(kind);
    }
    const std::size_t size = rounded(bytes, kLarge);
    char* const at = large && spare_ && size == kLarge ? std::exchange(spare_, nullptr) : map(size, large);
    try {
      current_ = regions_.emplace(at, Region{size, 0, 0}).first;
    } catch (...) {
      unmap(at, size);
      throw;
    }
    idle_ += size;
  }

  ProcessMutex mutex_;
  Map regions_;
  Map::iterator current_ = regions_.end();
  std::array<Block*, kKinds> free_{};
  std::size_t idle_ = 0, in_use_ = 0;  // bytes
  char* spare_ = nullptr;              // a large page that is clear already
  bool clearing_ = false;              // a thread makes one; the child of a fork then waits for its pages itself
};

Regions& regions() {  // never destroyed: static objects elsewhere may free blocks later
  static Regions& all = *new Regions;
  return all;
}

}  // namespace

void* take_pages(std::size_t bytes) {
  faults::on_allocation();
  return regions().take(bytes);
}
void give_pages(void* at, std::size_t bytes) noexcept { regions().give(at, bytes); }
std::size_t page_bytes(std::size_t bytes) { return Regions::bytes_of(bytes); }
std::size_t pages_in_use() { return regions().in_use(); }
void reserve_pages(std::size_t bytes) { regions().reserve(bytes); }

std::size_t heap_in_use() {
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
#endif
  return 0;
}

void trim_heap() {
  regions().trim();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace guiderail
