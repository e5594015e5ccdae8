#include "base/hash.h"

namespace fettle {

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  uint64_t h = mix64(seed ^ (bytes.size() * 0x9e3779b97f4a7c15ULL));
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = hash_combine(h, word);
  }
  if (i < bytes.size()) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    h = hash_combine(h, word);
  }
  return h;
}

Digest digest_bytes(std::string_view bytes) {
  return {hash_bytes(bytes, 0x6665747466ULL), hash_bytes(bytes, 0x6c655f3132ULL)};
}

std::string Digest::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

}  // namespace fettle
