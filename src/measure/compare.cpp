#include "measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "ir/visit.h"

namespace fettle {
namespace {

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  double value;
  if (exponent == 0)
    value = std::ldexp(mantissa, -24);
  else if (exponent == 31)
    value = mantissa ? NAN : INFINITY;
  else
    value = std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <class T>
double read(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return static_cast<double>(value);
}

double element(DType dtype, const void* data, int64_t i) {
  switch (dtype.code) {
    case TypeCode::kFloat:
      if (dtype.bits == 64) return read<double>(data, i);
      if (dtype.bits == 32) return read<float>(data, i);
      return from_half(static_cast<uint16_t>(read<uint16_t>(data, i)));
    case TypeCode::kBFloat:
      return std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(data, i)) << 16);
    case TypeCode::kInt:
      if (dtype.bits == 64) return read<int64_t>(data, i);
      if (dtype.bits == 32) return read<int32_t>(data, i);
      if (dtype.bits == 16) return read<int16_t>(data, i);
      return read<int8_t>(data, i);
    case TypeCode::kUInt:
      if (dtype.bits == 64) return read<uint64_t>(data, i);
      if (dtype.bits == 32) return read<uint32_t>(data, i);
      if (dtype.bits == 16) return read<uint16_t>(data, i);
      return read<uint8_t>(data, i);
    case TypeCode::kBool:
      return read<uint8_t>(data, i);
    default:  // programs have no other
      break;
  }
  FETTLE_UNREACHABLE();
}

std::string indices_text(std::span<const int64_t> shape, int64_t i) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d]) at[d] = i % shape[d];
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace

double tolerance_of_scale(const Func& workload, DType output, double error_bound) {
  if (!output.is_float()) return 0;
  if (output.bits == 16) return 2e-2;
  bool rounds = false;
  walk(workload->body, nullptr, [&](const Expr& e) {
    if (const auto* node = e.as<BinaryNode>()) rounds |= node->op == BinaryOp::kDiv;
    if (const auto* node = e.as<CallNode>())
      rounds |= node->name != "fma" && node->name != "abs" && node->name != "likely";
    if (const auto* node = e.as<CastNode>()) rounds |= node->dtype.is_float() && node->dtype.bits == 16;
    return !rounds;
  });
  constexpr double kMost = 1e-4, kEpsilon = std::numeric_limits<float>::epsilon();
  return rounds ? kMost : std::clamp(kEpsilon * std::sqrt(error_bound), 1e-5, kMost);
}

std::optional<std::string> find_difference(std::string_view name, std::span<const int64_t> shape, DType dtype,
                                           const void* computed, const void* reference, double tolerance,
                                           const std::vector<bool>& known) {
  const auto counts = [&](int64_t i) { return known.empty() || known[static_cast<size_t>(i)]; };
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  if (std::memcmp(computed, reference, static_cast<size_t>(count * dtype.element_bytes())) == 0) return std::nullopt;
  double scale = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!counts(i)) continue;
    const double magnitude = std::fabs(element(dtype, reference, i));
    if (std::isfinite(magnitude)) scale = std::max(scale, magnitude);
  }
  int64_t first = -1, wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!counts(i)) continue;
    const double a = element(dtype, computed, i), b = element(dtype, reference, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * scale;
    if (same) continue;
    if (first < 0) first = i;
    ++wrong;
  }
  if (wrong == 0) return std::nullopt;
  std::string text = fmt::format("{}{} is {:.9g} instead of {:.9g}", name, indices_text(shape, first),
                                 element(dtype, computed, first), element(dtype, reference, first));
  if (wrong > 1) text += fmt::format(" (and {} more of {} elements differ)", wrong - 1, count);
  return text;
}

std::vector<bool> equal_elements(std::span<const char> a, std::span<const char> b, DType dtype) {
  FETTLE_CHECK(a.size() == b.size());
  const auto bytes = static_cast<size_t>(dtype.element_bytes());
  std::vector<bool> equal(a.size() / bytes);
  for (size_t i = 0; i < equal.size(); ++i)
    equal[i] = std::memcmp(a.data() + i * bytes, b.data() + i * bytes, bytes) == 0;
  return equal;
}

}  // namespace fettle
