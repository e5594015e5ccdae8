#pragma once
// Hashing: a 64-bit mixer for nodes, and a 128-bit digest that is stable across runs, machines and versions.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fettle {

/// Finaliser of MurmurHash3 (public domain, A. Appleby).
inline uint64_t mix64(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

inline uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return mix64(seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)));
}

uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);

/// A stable 128-bit digest. A hit is a candidate for equality, never a proof of it.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
  std::string hex() const;  // 32 lower-case digits
};

Digest digest_bytes(std::string_view bytes);

}  // namespace fettle

template <>
struct std::hash<fettle::Digest> {
  size_t operator()(const fettle::Digest& d) const noexcept { return d.low; }
};
