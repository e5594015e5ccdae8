// Casts between strings and numbers.

#include <string.h>

#include "rt/decimal.h"
#include "rt/host_strings.h"
#include "rt/strings.h"
#include "rt/tensor.h"

namespace fettle::rt {
namespace {

constexpr int32_t kHalfFraction = 10, kHalfBias = 15, kFloatFraction = 23, kFloatBias = 127;

float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

double half_value(uint16_t bits) {
  const int32_t exponent = bits >> kHalfFraction & 31, fraction = bits & ((1 << kHalfFraction) - 1);
  const float sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 0) return sign * static_cast<float>(fraction) * float_of((kFloatBias - 24u) << kFloatFraction);
  const auto wide = static_cast<uint32_t>(exponent == 31 ? 255 : exponent - kHalfBias + kFloatBias);
  return sign * float_of(wide << kFloatFraction | static_cast<uint32_t>(fraction) << (kFloatFraction - kHalfFraction));
}

/// The half next to a number of single precision, the even one of two.
uint16_t half_of(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more
  if (magnitude < 0x38800000) {                       // below the least normal one: a multiple of 2^-24
    const float scaled = float_of(magnitude) * float_of((kFloatBias + 24u) << kFloatFraction);
    const float whole = scaled + float_of((kFloatBias + 23u) << kFloatFraction);  // rounds
    return static_cast<uint16_t>(sign | (bits_of(whole) & 0x7ff));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - ((kFloatBias - kHalfBias) << kFloatFraction)) >> 13));
}

uint16_t bfloat_of(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T element(const HostTensor& tensor, int64_t i) {
  T value;
  memcpy(&value, tensor.as<char>() + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}
template <class T>
void put(const HostTensor& tensor, int64_t i, T value) {
  memcpy(tensor.as<char>() + i * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

int32_t print(const HostTensor& x, int64_t i, char* to) {
  switch (x.dtype) {
    case FETTLE_F64:
      return print_number(element<double>(x, i), to);
    case FETTLE_F32:
      return print_number(element<float>(x, i), to);
    case FETTLE_F16:
      return print_number(half_value(element<uint16_t>(x, i)), to);
    case FETTLE_BF16:
      return print_number(float_of(uint32_t{element<uint16_t>(x, i)} << 16), to);
    case FETTLE_I8:
      return print_integer(int64_t{element<int8_t>(x, i)}, to);
    case FETTLE_I16:
      return print_integer(int64_t{element<int16_t>(x, i)}, to);
    case FETTLE_I32:
      return print_integer(int64_t{element<int32_t>(x, i)}, to);
    case FETTLE_I64:
      return print_integer(element<int64_t>(x, i), to);
    case FETTLE_U16:
      return print_integer(uint64_t{element<uint16_t>(x, i)}, to);
    case FETTLE_U32:
      return print_integer(uint64_t{element<uint32_t>(x, i)}, to);
    case FETTLE_U64:
      return print_integer(element<uint64_t>(x, i), to);
    default:  // bool, u8
      return print_integer(uint64_t{element<uint8_t>(x, i)}, to);
  }
}

bool is_float(int32_t dtype) { return dtype >= FETTLE_F16 && dtype <= FETTLE_F64; }
bool is_signed(int32_t dtype) {
  return dtype == FETTLE_I8 || dtype == FETTLE_I16 || dtype == FETTLE_I32 || dtype == FETTLE_I64;
}

bool read(FettleString text, const HostTensor& y, int64_t i) {
  if (is_float(y.dtype)) {
    double value = 0;
    if (!read_number(text, &value)) return false;
    const auto single = static_cast<float>(value);
    if (y.dtype == FETTLE_F64) put(y, i, value);
    if (y.dtype == FETTLE_F32) put(y, i, single);
    if (y.dtype == FETTLE_F16) put(y, i, half_of(single));
    if (y.dtype == FETTLE_BF16) put(y, i, bfloat_of(single));
    return true;
  }
  uint64_t value = 0;
  if (!read_integer(text, is_signed(y.dtype), &value)) return false;
  if (y.dtype == FETTLE_BOOL) value = value != 0;
  const auto bytes = static_cast<size_t>(find_element_type(y.dtype)->bytes);
  memcpy(y.as<char>() + i * static_cast<int64_t>(bytes), &value, bytes);  // the low bits
  return true;
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" int32_t fettle_host_string_cast(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), y = given.tensor(given.count() - 1);
  FettleStrings& strings = *context->strings;
  if (x.dtype == y.dtype) {
    memcpy(y.data, x.data, static_cast<size_t>(x.count) * sizeof(int64_t));
    return FETTLE_OK;
  }
  char text[kMostNumberChars];
  for (int64_t i = 0; i < x.count; ++i) {
    if (y.dtype == FETTLE_STRING) {
      const int64_t number = strings.number_of(text, print(x, i, text));
      if (number < 0) return host_out_of_memory(context);
      put(y, i, number);
    } else if (const FettleString string = strings.at(element<int64_t>(x, i)); !read(string, y, i)) {
      return host_failed(context, Text{} << "the string '" << string.data << "' is no number of type "
                                         << find_element_type(y.dtype)->name);
    }
  }
  return FETTLE_OK;
}
