#include "measure/fill.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace fettle {
namespace {

// Draws numbers 0 … 15, sixteen from each of the stream's.
class Nibbles {
 public:
  Nibbles(uint64_t seed, uint64_t stream) : random_{seed, stream} {}
  int next() {
    if (left_ == 0) {
      bits_ = random_.next();
      left_ = 16;
    }
    --left_;
    const int value = static_cast<int>(bits_ & 15);
    bits_ >>= 4;
    return value;
  }

 private:
  RandomStream random_;
  uint64_t bits_ = 0;
  int left_ = 0;
};

// ±(1 … 8)/8 as a float; all are exact in f16 and bf16 too.
float eighths(int nibble) {
  const float magnitude = static_cast<float>((nibble & 7) + 1) * 0.125f;
  return nibble & 8 ? -magnitude : magnitude;
}

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = ((bits >> 23) & 255) - 127 + 15;  // in range for the values above
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

template <class T, class Value>
void fill_with(void* data, int64_t elems, Nibbles& nibbles, Value value) {
  T* out = static_cast<T*>(data);
  for (int64_t i = 0; i < elems; ++i) out[i] = static_cast<T>(value(nibbles.next()));
}

}  // namespace

void fill_random(void* data, int64_t elems, DType dtype, uint64_t seed, uint64_t stream) {
  Nibbles nibbles(seed, stream);
  const auto small = [](int nibble) { return nibble % 9 - 4; };
  const auto natural = [](int nibble) { return nibble % 9; };
  switch (dtype.code) {
    case TypeCode::kFloat:
      if (dtype.bits == 64) return fill_with<double>(data, elems, nibbles, eighths);
      if (dtype.bits == 32) return fill_with<float>(data, elems, nibbles, eighths);
      return fill_with<uint16_t>(data, elems, nibbles, [](int n) { return to_half(eighths(n)); });
    case TypeCode::kBFloat:
      return fill_with<uint16_t>(data, elems, nibbles, [](int n) { return std::bit_cast<uint32_t>(eighths(n)) >> 16; });
    case TypeCode::kInt:
      if (dtype.bits == 64) return void(std::memset(data, 0, static_cast<size_t>(elems) * 8));
      if (dtype.bits == 32) return fill_with<int32_t>(data, elems, nibbles, small);
      if (dtype.bits == 16) return fill_with<int16_t>(data, elems, nibbles, small);
      return fill_with<int8_t>(data, elems, nibbles, small);
    case TypeCode::kUInt:
      if (dtype.bits == 64) return fill_with<uint64_t>(data, elems, nibbles, natural);
      if (dtype.bits == 32) return fill_with<uint32_t>(data, elems, nibbles, natural);
      if (dtype.bits == 16) return fill_with<uint16_t>(data, elems, nibbles, natural);
      return fill_with<uint8_t>(data, elems, nibbles, natural);
    case TypeCode::kBool:
      return fill_with<uint8_t>(data, elems, nibbles, [](int n) { return n & 1; });
    default:  // programs have no other
      break;
  }
  FETTLE_UNREACHABLE();
}

}  // namespace fettle
