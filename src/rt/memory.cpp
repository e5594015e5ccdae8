#include "rt/memory.h"

#include <sys/mman.h>

#include <new>

#include "rt/sys.h"

namespace fettle::rt {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr int32_t kSlots = 64;
constexpr int64_t kHeader = 64;  // before each scratch block; holds its size

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// A huge page of which less than half is used would be a waste. More than that is worth one: on small pages, which lie
// anywhere, more of it collides in the second-level cache.
constexpr int64_t kWorthHuge = kHugePage / 2;

bool wants_huge(int64_t bytes, int32_t huge) { return huge != 0 && bytes >= kWorthHuge; }

int64_t mapped_bytes(int64_t bytes, int32_t huge) {
  const int64_t size = round_up(bytes == 0 ? 1 : bytes, kPage);
  return wants_huge(bytes, huge) && size % kHugePage >= kWorthHuge ? round_up(size, kHugePage) : size;
}

/// A number for the calling thread: its stack's place, in steps of 8 MiB, mixed.
uint32_t thread_hint() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >> 23;
  return static_cast<uint32_t>((place * 0x9e3779b97f4a7c15u) >> 58);
}

struct Block {
  int64_t bytes;  // of the mapping, header included
};

Block* allocate_block(int64_t bytes) {
  // In steps of an eighth of the size, so that needs which differ a little share blocks.
  const int64_t step = (int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(bytes)))) / 8;
  const int64_t rounded = round_up(round_up(bytes, step < 1 ? 1 : step), kPage);
  auto* block = static_cast<Block*>(fettle_pages_alloc(rounded, 0));
  if (block != nullptr) block->bytes = rounded;
  return block;
}

void free_block(Block* block) { fettle_pages_free(block, block->bytes, 0); }

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

struct FettleScratch {
  std::atomic<Block*> idle[kSlots];
};

extern "C" {

void* fettle_pages_alloc(int64_t bytes, int32_t huge) {
  if (bytes < 0 || bytes > kMaxBytes) return nullptr;
  const int64_t size = mapped_bytes(bytes, huge);
  const bool align = wants_huge(bytes, huge);
  const int64_t reserve = align ? size + kHugePage : size;
  void* mapped =
      mmap(nullptr, static_cast<size_t>(reserve), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!align) return mapped;
  char* begin = static_cast<char*>(mapped);
  const int64_t before = round_up(reinterpret_cast<int64_t>(begin), kHugePage) - reinterpret_cast<int64_t>(begin);
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  if (before < kHugePage) munmap(begin + before + size, static_cast<size_t>(kHugePage - before));
  madvise(begin + before, static_cast<size_t>(size / kHugePage * kHugePage), MADV_HUGEPAGE);
  return begin + before;
}

void fettle_pages_free(void* block, int64_t bytes, int32_t huge) {
  if (block != nullptr) munmap(block, static_cast<size_t>(mapped_bytes(bytes, huge)));
}

FettleScratch* fettle_scratch_create(void) {
  void* place = fettle_pages_alloc(sizeof(FettleScratch), 0);
  return place == nullptr ? nullptr : new (place) FettleScratch{};
}

void fettle_scratch_destroy(FettleScratch* scratch) {
  if (scratch == nullptr) return;
  for (auto& slot : scratch->idle) {
    Block* block = slot.exchange(nullptr, std::memory_order_acquire);
    if (block != nullptr) free_block(block);
  }
  fettle_pages_free(scratch, sizeof(FettleScratch), 0);
}

void* fettle_scratch_acquire(FettleContext* context, int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBytes) return nullptr;
  const int64_t needed = bytes + kHeader;
  Block* block = nullptr;
  Block* too_small = nullptr;
  if (FettleScratch* scratch = context->scratch; scratch != nullptr) {
    const uint32_t hint = thread_hint();
    for (uint32_t i = 0; i < kSlots && block == nullptr; ++i) {
      auto& slot = scratch->idle[(hint + i) % kSlots];
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      Block* found = slot.exchange(nullptr, std::memory_order_acquire);
      if (found == nullptr) continue;
      if (found->bytes >= needed)
        block = found;
      else if (too_small == nullptr)
        too_small = found;
      else
        free_block(found);
    }
  }
  if (too_small != nullptr) {
    // A block that fits takes the place of one that does not, so the pool never holds more blocks than were in use at
    // once.
    if (block == nullptr)
      free_block(too_small);
    else
      fettle_scratch_release(context, reinterpret_cast<char*>(too_small) + kHeader);
  }
  if (block == nullptr) block = allocate_block(needed);
  return block == nullptr ? nullptr : reinterpret_cast<char*>(block) + kHeader;
}

void fettle_scratch_release(FettleContext* context, void* data) {
  if (data == nullptr) return;
  auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
  if (FettleScratch* scratch = context->scratch; scratch != nullptr) {
    const uint32_t hint = thread_hint();
    for (uint32_t i = 0; i < kSlots; ++i) {
      auto& slot = scratch->idle[(hint + i) % kSlots];
      Block* expected = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          slot.compare_exchange_strong(expected, block, std::memory_order_release, std::memory_order_relaxed))
        return;
    }
  }
  free_block(block);
}
}
