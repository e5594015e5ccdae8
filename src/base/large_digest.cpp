#include "base/large_digest.h"

#include <array>
#include <cstring>

namespace fettle {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

// Four lanes of wyhash's mixing (public domain, Wang Yi): each multiplies 128 bits at a time.
Digest digest_large(std::span<const std::byte> bytes) {
  constexpr std::array<uint64_t, 4> kKeys = {0xa0761d6478bd642fULL, 0xe7037ed1a0b428dbULL, 0x8ebc6af09c88c6e3ULL,
                                             0x589965cc75374cc3ULL};
  // Others than the keys, so that the two words of a product are not alike.
  std::array<uint64_t, 4> lanes = {kKeys[3], kKeys[0], kKeys[1], kKeys[2]};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  std::array<uint64_t, 8> words{};
  const auto mix = [&] {
    for (size_t l = 0; l < 4; ++l) lanes[l] = mixed(words[2 * l] ^ kKeys[l], words[2 * l + 1] ^ lanes[l]) + lanes[l];
  };
  for (; left >= sizeof words; at += sizeof words, left -= sizeof words) {
    std::memcpy(words.data(), at, sizeof words);
    mix();
  }
  words.fill(0);
  if (left > 0) std::memcpy(words.data(), at, left);
  mix();
  const uint64_t size = bytes.size();
  const uint64_t a = mixed(lanes[0] ^ size, lanes[1] ^ kKeys[2]), b = mixed(lanes[2] ^ size, lanes[3] ^ kKeys[1]);
  return {hash_combine(a, b), hash_combine(b ^ kKeys[3], a)};
}

}  // namespace fettle
