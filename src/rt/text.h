#pragma once
// Sentences without a library to make them. For rt's own sources.

#include <stdint.h>

namespace fettle::rt {

constexpr int32_t kMaxText = 512;

/// A sentence put together from pieces, cut where it grows too long.
struct Text {
  char chars[kMaxText];
  int32_t length = 0;

  void clear() { chars[length = 0] = 0; }

  Text& operator<<(const char* piece) {
    while (*piece != 0 && length < kMaxText - 1) chars[length++] = *piece++;
    chars[length] = 0;
    return *this;
  }
  Text& operator<<(int64_t value) {
    char digits[24];
    int at = 23;
    digits[at] = 0;
    uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0) digits[--at] = '-';
    return *this << (digits + at);
  }
  Text& operator<<(int32_t value) { return *this << int64_t{value}; }
};

/// Lines as a list: "Conv c1\nRelu r1" → "Conv c1, Relu r1".
struct Lines {
  const char* text;
};
inline Text& operator<<(Text& text, Lines lines) {
  char piece[3] = {};
  for (const char* at = lines.text; *at != 0; ++at) {
    piece[0] = *at == '\n' ? ',' : *at;
    piece[1] = *at == '\n' ? ' ' : '\0';
    text << piece;
  }
  return text;
}

}  // namespace fettle::rt
