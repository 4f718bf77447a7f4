// Memory in large pages (transparent huge pages, where the system has them) for what is read at random all the time
// and stays: the trie of a vocabulary is some megabytes, more than the processor's translation buffers reach with pages
// of 4 KB. Elsewhere it is ordinary memory.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace guiderail {

// Of any size; many small ones share large pages. From many threads at once.
void* take_pages(std::size_t bytes);
void give_pages(void* at, std::size_t bytes) noexcept;

template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::size_t kFrom = 64 << 10;  // bytes; less comes from the heap
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}
  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    return static_cast<T*>(bytes < kFrom ? ::operator new(bytes) : take_pages(bytes));
  }
  void deallocate(T* at, std::size_t n) noexcept {
    const std::size_t bytes = n * sizeof(T);
    if (bytes < kFrom)
      ::operator delete(at);
    else
      give_pages(at, bytes);
  }
  bool operator==(const PageAllocator&) const { return true; }
};

template <class T>
using PagedVector = std::vector<T, PageAllocator<T>>;

// Blocks of one size on the heap, of which some stay for whoever comes next. Not in large pages: arenas come and go,
// and whoever touches a large page first waits until all of it is cleared.
class PagePool {
 public:
  explicit PagePool(std::size_t bytes) : bytes_(bytes) {}
  void* take();
  void give(void* at) noexcept;

 private:
  std::size_t bytes_;
  std::vector<void*> free_;
};

}  // namespace guiderail
