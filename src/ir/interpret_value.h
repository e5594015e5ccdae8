#pragma once
// Numbers as the interpreter holds them: every integer as 64 bits, wrapped to its type; every float as a double
// that its type can represent.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ir/type.h"

namespace fettle::interp {

union Value {
  int64_t i;
  double f;
  char* p;
};
static_assert(sizeof(Value) == sizeof(char*));

inline Value of_int(int64_t i) { return {.i = i}; }
inline Value of_float(double f) { return {.f = f}; }

/// Two's complement wrap to `bits` bits.
struct Wrap {
  int shift = 0;  // 64 - bits
  bool is_signed = true;
  explicit Wrap(DType t) : shift(64 - t.bits), is_signed(t.code == TypeCode::kInt) {}
  int64_t operator()(uint64_t x) const {
    if (shift == 0) return static_cast<int64_t>(x);
    return is_signed ? static_cast<int64_t>(x << shift) >> shift : static_cast<int64_t>(x << shift >> shift);
  }
};

/// Rounds a double to the nearest value of a float type, half to even. A sum, product, quotient or square root of
/// two f32 (f16, bf16) values, computed as a double and then rounded, is rounded correctly.
struct RoundF32 {
  double operator()(double x) const { return static_cast<float>(x); }
};
struct RoundF64 {
  double operator()(double x) const { return x; }
};
struct RoundSmall {
  int digits, min_exponent;
  double largest;
  explicit RoundSmall(DType t);
  double operator()(double x) const;
};
double round_to(double x, DType type);

uint16_t encode_small(double x, DType type);
double decode_small(uint16_t bits, DType type);

/// How an element lies in memory.
enum class Storage : uint8_t { kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kBool };
Storage storage_of(DType type);

template <class T>
T read_as(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
void write_as(char* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

inline Value read(Storage storage, const char* p) {
  switch (storage) {
    case Storage::kF32:
      return of_float(read_as<float>(p));
    case Storage::kF64:
      return of_float(read_as<double>(p));
    case Storage::kF16:
      return of_float(decode_small(read_as<uint16_t>(p), kF16));
    case Storage::kBF16:
      return of_float(decode_small(read_as<uint16_t>(p), kBF16));
    case Storage::kI8:
      return of_int(read_as<int8_t>(p));
    case Storage::kI16:
      return of_int(read_as<int16_t>(p));
    case Storage::kI32:
      return of_int(read_as<int32_t>(p));
    case Storage::kI64:
      return of_int(read_as<int64_t>(p));
    case Storage::kU8:
      return of_int(read_as<uint8_t>(p));
    case Storage::kU16:
      return of_int(read_as<uint16_t>(p));
    case Storage::kU32:
      return of_int(read_as<uint32_t>(p));
    case Storage::kBool:
      return of_int(read_as<uint8_t>(p) != 0);
  }
  return of_int(0);
}

inline void write(Storage storage, char* p, Value v) {
  switch (storage) {
    case Storage::kF32:
      return write_as(p, static_cast<float>(v.f));
    case Storage::kF64:
      return write_as(p, v.f);
    case Storage::kF16:
      return write_as(p, encode_small(v.f, kF16));
    case Storage::kBF16:
      return write_as(p, encode_small(v.f, kBF16));
    case Storage::kI8:
    case Storage::kU8:
      return write_as(p, static_cast<uint8_t>(v.i));
    case Storage::kI16:
    case Storage::kU16:
      return write_as(p, static_cast<uint16_t>(v.i));
    case Storage::kI32:
    case Storage::kU32:
      return write_as(p, static_cast<uint32_t>(v.i));
    case Storage::kI64:
      return write_as(p, v.i);
    case Storage::kBool:
      return write_as(p, static_cast<uint8_t>(v.i != 0));
  }
}

/// What fills memory that nothing has written: NaN for floats, 0xcd bytes for the rest.
void poison(char* begin, int64_t size_bytes, DType type);

}  // namespace fettle::interp
