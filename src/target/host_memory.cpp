#include "target/host_memory.h"

#include <cstdlib>
#include <cstring>

#include "rt/memory.h"

namespace fettle {

std::shared_ptr<std::byte> zeroed_bytes(int64_t size_bytes) {
  constexpr int64_t kLarge = 1 << 20;
  if (size_bytes >= kLarge) {
    const int64_t bytes = size_bytes + 64;
    auto* pages = static_cast<std::byte*>(fettle_pages_alloc(bytes, 1));
    if (!pages) return nullptr;
    return {pages, [bytes](std::byte* p) { fettle_pages_free(p, bytes, 1); }};
  }
  const size_t rounded = (static_cast<size_t>(size_bytes) + 64) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (!memory) return nullptr;
  std::memset(memory, 0, rounded);
  return {memory, [](std::byte* p) { std::free(p); }};
}

}  // namespace fettle
