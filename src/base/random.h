#pragma once
// Keyed random streams: the numbers drawn depend on the key alone, never on who else draws, or when.

#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "base/hash.h"

namespace fettle {

/// SplitMix64 (Steele, Lea, Flood 2014) started from a key such as {seed, task, generation, candidate}.
class RandomStream {
 public:
  explicit RandomStream(std::initializer_list<uint64_t> key) {
    for (uint64_t part : key) state_ = hash_combine(state_, part);
  }

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, n); n >= 1.
  uint64_t below(uint64_t n) {
    FETTLE_CHECK(n >= 1);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// A stream of its own, for a named part of the work.
  RandomStream fork(uint64_t part) { return RandomStream{next(), part}; }

 private:
  uint64_t state_ = 0x5851f42d4c957f2dULL;
};

}  // namespace fettle
