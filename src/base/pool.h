#pragma once
// Memory for the many small objects that live and die together: free lists by size, one set a thread.

#include <cstddef>
#include <memory>
#include <new>

namespace fettle {

/// Where a block goes back to a list instead of to the system. A block may be freed by another thread than took it;
/// when a thread ends, others use its lists. What was taken from the system once is kept for further small objects.
namespace pool {

inline constexpr size_t kGranule = 16, kLargest = 256, kClasses = kLargest / kGranule;

struct FreeBlock {
  FreeBlock* next;
};
inline thread_local constinit FreeBlock* lists[kClasses] = {};

/// The block that is asked for; others like it are on the list then.
void* refill(size_t list);

inline void* take(size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  return ::operator new(bytes);  // so that uses after the end are found
#else
  if (bytes > kLargest) return ::operator new(bytes);
  const size_t list = (bytes - 1) / kGranule;
  FreeBlock* block = lists[list];
  if (!block) return refill(list);
  lists[list] = block->next;
  return block;
#endif
}

/// bytes: as it was taken.
inline void give(void* memory, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ::operator delete(memory, bytes);
#else
  if (bytes > kLargest) return ::operator delete(memory, bytes);
  const size_t list = (bytes - 1) / kGranule;
  auto* block = static_cast<FreeBlock*>(memory);
  block->next = lists[list];
  lists[list] = block;
#endif
}

}  // namespace pool

/// An allocator over the pool, for containers that are made and dropped by the thousand.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(pool::take(n * sizeof(T))); }
  void deallocate(T* p, size_t n) { pool::give(static_cast<void*>(p), n * sizeof(T)); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

}  // namespace fettle

/// Vectors of T (a type of ours, or a pointer to one) take their memory from the pool. To be said where T is defined,
/// before any vector of it. At global scope.
#define FETTLE_VECTORS_FROM_POOL(...)                                       \
  template <>                                                               \
  struct std::allocator<__VA_ARGS__> : fettle::PoolAllocator<__VA_ARGS__> { \
    allocator() = default;                                                  \
    template <class U>                                                      \
    allocator(const allocator<U>&) {}                                       \
  }
