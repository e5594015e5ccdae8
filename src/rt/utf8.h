#pragma once
// UTF-8 and simple case mappings. For rt's own sources.

#include <stdint.h>

namespace fettle::rt {

/// A character of a text, and how many bytes it takes. A byte that begins none is one by itself, of code -1.
struct Utf8 {
  int32_t code;
  int32_t bytes;
};

inline Utf8 decode_utf8(const char* text, int64_t bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(text);
  if (at[0] < 0x80) return {at[0], 1};
  const int32_t length = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
  if (length == 0 || length > bytes) return {-1, 1};
  int32_t code = at[0] & (0x7f >> length);
  for (int32_t i = 1; i < length; ++i) {
    if ((at[i] & 0xc0) != 0x80) return {-1, 1};
    code = code << 6 | (at[i] & 0x3f);
  }
  constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code >= kLeast[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? Utf8{code, length} : Utf8{-1, 1};
}

/// Writes the character, and returns how many bytes it takes: at most 4.
inline int32_t encode_utf8(int32_t code, char* to) {
  const auto put = [&](int32_t i, int32_t byte) { to[i] = static_cast<char>(byte); };
  if (code < 0x80) return put(0, code), 1;
  if (code < 0x800) return put(0, 0xc0 | code >> 6), put(1, 0x80 | (code & 0x3f)), 2;
  if (code < 0x10000)
    return put(0, 0xe0 | code >> 12), put(1, 0x80 | (code >> 6 & 0x3f)), put(2, 0x80 | (code & 0x3f)), 3;
  return put(0, 0xf0 | code >> 18), put(1, 0x80 | (code >> 12 & 0x3f)), put(2, 0x80 | (code >> 6 & 0x3f)),
         put(3, 0x80 | (code & 0x3f)), 4;
}

/// The character in upper or lower case: the one that Unicode's simple mapping names, or itself.
int32_t to_upper(int32_t code);
int32_t to_lower(int32_t code);

/// What Unicode calls white space.
inline bool is_space(int32_t code) {
  return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

}  // namespace fettle::rt
