#include "base/pool.h"

#include <array>
#include <mutex>

namespace fettle::pool {
namespace {

constexpr size_t kChunkBytes = size_t{32} << 10;

// The lists of threads that have ended.
struct Depot {
  std::mutex mutex;
  std::array<FreeBlock*, kClasses> lists{};
};
Depot& depot() {
  static Depot* const kept = new Depot;  // outlives every thread
  return *kept;
}

struct HandOver {
  ~HandOver() {
    Depot& d = depot();
    const std::lock_guard lock(d.mutex);
    for (size_t i = 0; i < kClasses; ++i) {
      FreeBlock* last = lists[i];
      if (!last) continue;
      while (last->next) last = last->next;
      last->next = d.lists[i];
      d.lists[i] = lists[i];
      lists[i] = nullptr;
    }
  }
};

}  // namespace

void* refill(size_t list) {
  thread_local HandOver at_the_end;
  static_cast<void>(&at_the_end);
  FreeBlock* blocks = nullptr;
  {
    Depot& d = depot();
    const std::lock_guard lock(d.mutex);
    std::swap(blocks, d.lists[list]);
  }
  if (!blocks) {
    const size_t bytes = (list + 1) * kGranule;
    auto* chunk = static_cast<std::byte*>(::operator new(kChunkBytes));
    for (size_t n = kChunkBytes / bytes; n-- > 0;) {
      auto* block = reinterpret_cast<FreeBlock*>(chunk + n * bytes);
      block->next = blocks;
      blocks = block;
    }
  }
  lists[list] = blocks->next;
  return blocks;
}

}  // namespace fettle::pool
