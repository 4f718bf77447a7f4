#include "pages.hpp"

#include <map>
#include <mutex>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace guiderail {
namespace {

constexpr std::size_t kLine = 64;

#ifdef __linux__
constexpr std::size_t kPage = 2u << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A region is given back when nothing in it is in use any more.
class Regions {
 public:
  void* take(std::size_t bytes) {
    bytes = rounded(bytes, kLine);
    std::lock_guard lock(mutex_);
    if (current_ == regions_.end() || current_->second.size - current_->second.used < bytes) {
      const std::size_t size = rounded(bytes, kPage);
      const auto made = regions_.emplace(map(size), Region{size, 0, 0}).first;
      if (current_ == regions_.end() || size - bytes > current_->second.size - current_->second.used) current_ = made;
      return cut(made, bytes);
    }
    return cut(current_, bytes);
  }
  void give(void* at) noexcept {
    std::lock_guard lock(mutex_);
    auto region = regions_.upper_bound(static_cast<char*>(at));
    --region;
    if (--region->second.taken != 0) return;
    if (current_ == region) current_ = regions_.end();
    munmap(region->first, region->second.size);
    regions_.erase(region);
  }

 private:
  struct Region {
    std::size_t size, used, taken;
  };
  using Map = std::map<char*, Region>;
  static void* cut(Map::iterator from, std::size_t bytes) {
    void* at = from->first + from->second.used;
    from->second.used += bytes;
    ++from->second.taken;
    return at;
  }
  static char* map(std::size_t size) {
    const std::size_t all = size + kPage;  // some of it lies before a large page begins
    void* got = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    char* from = static_cast<char*>(got);
    char* at = reinterpret_cast<char*>(rounded(reinterpret_cast<std::size_t>(from), kPage));
    if (at != from) munmap(from, static_cast<std::size_t>(at - from));
    if (char* end = at + size; end != from + all) munmap(end, static_cast<std::size_t>(from + all - end));
    madvise(at, size, MADV_HUGEPAGE);  // a wish: without it the pages are small
    return at;
  }

  std::mutex mutex_;
  Map regions_;
  Map::iterator current_ = regions_.end();
};

Regions& regions() {  // lives on: what is static elsewhere may give back late
  static Regions& all = *new Regions;
  return all;
}
#endif

std::mutex& pool_mutex() {
  static std::mutex& one = *new std::mutex;
  return one;
}
constexpr std::size_t kMostFree = 64;

}  // namespace

#ifdef __linux__
void* take_pages(std::size_t bytes) { return regions().take(bytes); }
void give_pages(void* at, std::size_t) noexcept { regions().give(at); }
#else
void* take_pages(std::size_t bytes) { return ::operator new(bytes, std::align_val_t{kLine}); }
void give_pages(void* at, std::size_t) noexcept { ::operator delete(at, std::align_val_t{kLine}); }
#endif

void* PagePool::take() {
  {
    std::lock_guard lock(pool_mutex());
    if (!free_.empty()) {
      void* at = free_.back();
      free_.pop_back();
      return at;
    }
  }
  return ::operator new(bytes_);
}

void PagePool::give(void* at) noexcept {
  {
    std::lock_guard lock(pool_mutex());
    if (free_.capacity() == 0) free_.reserve(kMostFree);
    if (free_.size() < kMostFree) return free_.push_back(at);
  }
  ::operator delete(at);
}

}  // namespace guiderail
