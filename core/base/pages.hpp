// Memory in large pages (transparent huge pages, where the system has them) for what is read at random all the time:
// the trie of a vocabulary, masks, the nodes of arenas and the tables that find them are some megabytes, more than the
// processor's translation buffers reach with pages of 4 KB. What is given back is kept for whoever comes next, so that
// nobody waits for the system to clear it again. Elsewhere it is ordinary memory.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace guiderail {

// Of any size, at the beginning of a page of 4 KB. From many threads at once.
void* take_pages(std::size_t bytes);
void give_pages(void* at, std::size_t bytes) noexcept;
// Makes room for so many bytes in large pages, where there is less. Who touches one first waits until all of it is
// cleared: that should not be a mask, so what was not reserved lies in small pages, unless it is large itself.
void reserve_pages(std::size_t bytes);
// What so many bytes take of them; what is taken now.
std::size_t page_bytes(std::size_t bytes);
std::size_t pages_in_use();
// Of the heap of the whole process, large blocks included, where the C library tells it (glibc 2.33), else 0.
std::size_t heap_in_use();
// What is free in the pages and in the heap goes back to the system, where it can (glibc). Some milliseconds.
void trim_heap();

template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::size_t kFrom = 4096;  // bytes; less comes from the heap
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

}  // namespace guiderail
