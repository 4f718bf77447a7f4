// Memory in large pages (transparent huge pages, where the system has them) for data that is read at random all the
// time: the trie of a vocabulary, masks, the nodes of arenas and the tables that find them. They take some megabytes,
// more than the processor's translation buffers cover with pages of 4 KB. Freed memory is kept for the next request, so
// that nobody waits for the system to clear it again. Elsewhere this is ordinary memory.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace guiderail {

// A block of any size that begins at a page of 4 KB. Safe to call from many threads.
void* take_pages(std::size_t bytes);
void give_pages(void* at, std::size_t bytes) noexcept;
// Makes sure that this many bytes are free in large pages. The first access to a large page waits until all of it is
// cleared. A mask should not wait for that, so memory that was not reserved is in small pages, unless it is large
// itself.
void reserve_pages(std::size_t bytes);
// The pages that a block of this many bytes takes; and the pages in use.
std::size_t page_bytes(std::size_t bytes);
std::size_t pages_in_use();
// The heap memory of the whole process, including large blocks, if the C library reports it (glibc 2.33), else 0.
std::size_t heap_in_use();
// Returns free pages and free heap memory to the system, where it can (glibc). Takes some milliseconds.
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
