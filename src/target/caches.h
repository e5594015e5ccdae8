#pragma once
// How large a target's caches are.

#include <algorithm>
#include <iterator>

#include "target/target.h"

namespace fettle {

/// Bytes of the data cache of this level, the first being 0, in most cores: 32 KiB, 1 MiB, 32 MiB.
inline int64_t usual_cache_bytes(size_t level) {
  constexpr int64_t kUsual[] = {32 << 10, 1 << 20, 32 << 20};
  return kUsual[std::min(level, std::size(kUsual) - 1)];
}

/// … in this target; as usual where it is not known.
inline int64_t cache_bytes(const Target& target, size_t level) {
  return level < target.caches.size() ? target.caches[level].size_bytes : usual_cache_bytes(level);
}

}  // namespace fettle
