#pragma once
// How large a target's caches are.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "target/target.h"

namespace fettle {

/// Bytes of a cache line of the CPUs that there are targets for.
inline constexpr int64_t kCacheLineBytes = 64;

/// Bytes of the data cache of this level, the first being 0, in most cores: 32 KiB, 1 MiB, 32 MiB.
inline int64_t usual_cache_bytes(size_t level) {
  constexpr int64_t kUsual[] = {32 << 10, 1 << 20, 32 << 20};
  return kUsual[std::min(level, std::size(kUsual) - 1)];
}

/// … in this target; as usual where it is not known.
inline int64_t cache_bytes(const Target& target, size_t level) {
  return level < target.caches.size() ? target.caches[level].size_bytes : usual_cache_bytes(level);
}

/// Bytes that it holds of runs of `run` bytes, `stride` bytes apart. Where the stride is a multiple of a large power of
/// two, they fall into few of its sets.
///   48 KiB of 12 ways, runs of 128 bytes, 8192 apart   →   1536: two sets
inline int64_t cache_bytes_of_runs(const Target& target, size_t level, int64_t run, int64_t stride) {
  constexpr int64_t kUsualWays = 8, kLine = kCacheLineBytes;
  const bool known = level < target.caches.size() && target.caches[level].ways > 0;
  const int64_t ways = known ? target.caches[level].ways : kUsualWays;
  const int64_t way = std::max(kLine, cache_bytes(target, level) / ways);
  const int64_t places = way / std::gcd(way, std::max(stride, int64_t{1}));
  return ways * std::min(way, places * ((run + kLine - 1) / kLine * kLine));
}

}  // namespace fettle
