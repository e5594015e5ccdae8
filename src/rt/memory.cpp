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

/// An idle block as one word: the number of its first page, and of how many there are. Whoever looks for a block sees
/// which ones fit without taking any. 0: none, also for one so large or so far up that a word cannot hold it.
constexpr int kPagesBits = 28;

uint64_t word_of(const Block* block) {
  const uint64_t first = reinterpret_cast<uintptr_t>(block) / kPage,
                 pages = static_cast<uint64_t>(block->bytes) / kPage;
  return first >> (64 - kPagesBits) != 0 || pages >> kPagesBits != 0 ? 0 : first << kPagesBits | pages;
}
Block* block_of(uint64_t word) { return reinterpret_cast<Block*>((word >> kPagesBits) * kPage); }
int64_t bytes_of(uint64_t word) { return static_cast<int64_t>(word & ((uint64_t{1} << kPagesBits) - 1)) * kPage; }

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

struct FettleScratch {
  std::atomic<uint64_t> idle[kSlots];  // word_of
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
    const uint64_t word = slot.exchange(0, std::memory_order_acquire);
    if (word != 0) free_block(block_of(word));
  }
  fettle_pages_free(scratch, sizeof(FettleScratch), 0);
}

void* fettle_scratch_acquire(FettleContext* context, int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBytes) return nullptr;
  const int64_t needed = bytes + kHeader;
  Block* block = nullptr;
  if (FettleScratch* scratch = context->scratch; scratch != nullptr) {
    const auto take = [](std::atomic<uint64_t>& slot, uint64_t word) {
      return slot.compare_exchange_strong(word, 0, std::memory_order_acquire, std::memory_order_relaxed);
    };
    // The first that fits closely; else the smallest that fits.
    std::atomic<uint64_t>*best = nullptr, *too_small = nullptr;
    uint64_t best_word = 0, small_word = 0;
    const uint32_t hint = thread_hint();
    for (uint32_t i = 0; i < kSlots; ++i) {
      auto& slot = scratch->idle[(hint + i) % kSlots];
      const uint64_t word = slot.load(std::memory_order_relaxed);
      if (word == 0) continue;
      if (bytes_of(word) < needed) {
        too_small = &slot;
        small_word = word;
      } else if (best == nullptr || bytes_of(word) < bytes_of(best_word)) {
        best = &slot;
        best_word = word;
        if (bytes_of(word) <= 2 * round_up(needed, kPage)) break;
      }
    }
    if (best != nullptr && take(*best, best_word)) block = block_of(best_word);
    // A block that fits takes the place of one that does not, so the pool never holds more blocks than were in use at
    // once.
    if (block == nullptr && too_small != nullptr && take(*too_small, small_word)) free_block(block_of(small_word));
  }
  if (block == nullptr) block = allocate_block(needed);
  return block == nullptr ? nullptr : reinterpret_cast<char*>(block) + kHeader;
}

void fettle_scratch_release(FettleContext* context, void* data) {
  if (data == nullptr) return;
  auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
  const uint64_t word = word_of(block);
  if (FettleScratch* scratch = context->scratch; scratch != nullptr && word != 0) {
    const uint32_t hint = thread_hint();
    for (uint32_t i = 0; i < kSlots; ++i) {
      auto& slot = scratch->idle[(hint + i) % kSlots];
      uint64_t expected = 0;
      if (slot.load(std::memory_order_relaxed) == 0 &&
          slot.compare_exchange_strong(expected, word, std::memory_order_release, std::memory_order_relaxed))
        return;
    }
  }
  free_block(block);
}
}
