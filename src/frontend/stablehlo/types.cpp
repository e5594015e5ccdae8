#include "frontend/stablehlo/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/small_types.h"

namespace fettle::stablehlo {
namespace {

struct Named {
  std::string_view name;
  DType dtype;
};
// The first of a type's names is the one that is printed.
constexpr Named kNames[] = {
    {"i1", kBool},
    {"i2", kI2},
    {"i4", kI4},
    {"i8", kI8},
    {"i16", kI16},
    {"i32", kI32},
    {"i64", kI64},
    {"ui2", kU2},
    {"ui4", kU4},
    {"ui8", kU8},
    {"ui16", kU16},
    {"ui32", kU32},
    {"ui64", kU64},
    {"bf16", kBF16},
    {"f16", kF16},
    {"f32", kF32},
    {"f64", kF64},
    {"f8E4M3FN", kF8E4M3FN},
    {"f8E4M3FNUZ", kF8E4M3FNUZ},
    {"f8E5M2", kF8E5M2},
    {"f8E5M2FNUZ", kF8E5M2FNUZ},
    {"f8E8M0FNU", kF8E8M0},
    {"f4E2M1FN", kF4E2M1},
    {"si2", kI2},
    {"si4", kI4},
    {"si8", kI8},
    {"si16", kI16},
    {"si32", kI32},
    {"si64", kI64},
};

constexpr SmallFloat kSmallFloats[] = {
    {"f8E4M3", 4, 3, 7, true},    {"f8E3M4", 3, 4, 3, true},    {"f8E4M3B11FNUZ", 4, 3, 11, false},
    {"f6E2M3FN", 2, 3, 1, false}, {"f6E3M2FN", 3, 2, 3, false},
};

template <class T>
std::string joined(const std::vector<T>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

// {a, b} at every level of the blocks' shape; the last has the scales.
std::string scales_text(const Quantization& q, const std::vector<int64_t>& counts, size_t level, size_t& next) {
  if (level == counts.size()) {
    const size_t i = next++;
    const std::string scale = float_text(kF64, i < q.scales.size() ? q.scales[i] : 0);
    const int64_t zero = i < q.zero_points.size() ? q.zero_points[i] : 0;
    return zero == 0 ? scale : fmt::format("{}:{}", scale, zero);
  }
  std::vector<std::string> parts;
  for (int64_t i = 0; i < counts[level]; ++i) parts.push_back(scales_text(q, counts, level + 1, next));
  return "{" + joined(parts) + "}";
}

std::string quantization_text(const Quantization& q) {
  std::string storage = element_name({.dtype = q.storage});
  if (storage.starts_with("ui")) storage.erase(1, 1);
  std::string text = "!quant.uniform<" + storage;
  if (q.storage_min != least_int(q.storage) || q.storage_max != greatest_int(q.storage))
    text += fmt::format("<{}:{}>", q.storage_min, q.storage_max);
  text += ":" + element_name({.dtype = q.expressed});
  std::vector<int64_t> counts;
  if (!q.blocks.empty()) {
    std::vector<std::string> dims;
    for (size_t i = 0; i < q.dims.size(); ++i) dims.push_back(fmt::format("{}:{}", q.dims[i], q.blocks[i]));
    text += ":{" + joined(dims) + "}";
  } else if (!q.dims.empty()) {
    text += fmt::format(":{}", q.dims[0]);
    counts = {static_cast<int64_t>(q.scales.size())};
  }
  size_t next = 0;
  if (q.blocks.empty()) return text + ", " + scales_text(q, counts, 0, next) + ">";
  return text + ", " + scales_text(q, q.scale_shape, 0, next) + ">";
}

std::string list_text(const std::vector<Type>& types) {
  std::vector<std::string> parts;
  for (const Type& type : types) parts.push_back(type.to_string());
  return joined(parts);
}

std::string extents_text(const std::vector<int64_t>& extents, std::string_view separator) {
  std::vector<std::string> parts;
  for (const int64_t extent : extents) parts.push_back(extent == kDynamic ? "?" : fmt::format("{}", extent));
  return fmt::format("{}", fmt::join(parts, separator));
}

bool same_element(const ElementType& a, const ElementType& b) {
  if (a.dtype != b.dtype || a.is_complex != b.is_complex || a.is_index != b.is_index || a.unknown != b.unknown)
    return false;
  if (!a.quantization || !b.quantization) return a.quantization == b.quantization;
  return a.quantization == b.quantization || *a.quantization == *b.quantization;
}

}  // namespace

std::optional<ElementType> element_named(std::string_view name) {
  if (name == "index") return ElementType{.dtype = kI64, .is_index = true};
  const auto found = std::ranges::find(kNames, name, &Named::name);
  if (found != std::end(kNames)) return ElementType{.dtype = found->dtype};
  if (name == "tf32") return ElementType{.dtype = kF32, .unknown = std::string(name)};
  if (small_float_named(name)) return ElementType{.dtype = kU8, .unknown = std::string(name)};
  return std::nullopt;
}

std::string element_name(const ElementType& element) {
  if (element.quantization) return quantization_text(*element.quantization);
  const auto found = std::ranges::find(kNames, element.dtype, &Named::dtype);
  const std::string name = element.is_index            ? "index"
                           : !element.unknown.empty()  ? element.unknown
                           : found == std::end(kNames) ? element.dtype.to_string()
                                                       : std::string(found->name);
  return element.is_complex ? "complex<" + name + ">" : name;
}

std::string float_text(DType dtype, double value) {
  if (!std::isfinite(value)) {
    const ConstantTensor bits = scalar(value, dtype);
    uint64_t code = 0;
    std::memcpy(&code, bits.data(), static_cast<size_t>(bits.size_bytes));
    return fmt::format("0x{:0{}X}", code, 2 * bits.size_bytes);
  }
  std::string text = dtype == kF64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find('.') != std::string::npos) return text;
  const size_t exponent = text.find('e');
  return text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
}

std::string Type::to_string() const {
  switch (kind) {
    case Kind::kScalar:
      return element_name(element);
    case Kind::kToken:
      return "!stablehlo.token";
    case Kind::kNone:
      return element.unknown.empty() ? "none" : element.unknown;
    case Kind::kTuple:
      return "tuple<" + list_text(inputs) + ">";
    case Kind::kFunction:
      return "(" + list_text(inputs) + ") -> " +
             (results.size() == 1 && results[0].kind != Kind::kFunction ? results[0].to_string()
                                                                        : "(" + list_text(results) + ")");
    case Kind::kTensor:
      break;
  }
  if (!is_ranked) return "tensor<*x" + element_name(element) + ">";
  std::string text = "tensor<" + extents_text(shape, "x") + (shape.empty() ? "" : "x") + element_name(element);
  if (!bounds.empty()) text += ", #stablehlo.bounds<" + extents_text(bounds, ", ") + ">";
  return text + ">";
}

bool same_type(const Type& a, const Type& b) {
  return a.kind == b.kind && a.is_ranked == b.is_ranked && a.shape == b.shape && a.bounds == b.bounds &&
         same_element(a.element, b.element) && std::ranges::equal(a.inputs, b.inputs, same_type) &&
         std::ranges::equal(a.results, b.results, same_type);
}

const SmallFloat* small_float_named(std::string_view name) {
  const auto found = std::ranges::find(kSmallFloats, name, &SmallFloat::name);
  return found == std::end(kSmallFloats) ? nullptr : found;
}

uint8_t small_float_code(const SmallFloat& format, double value) {
  const int top = (1 << format.exponent_bits) - 1, sign_at = format.exponent_bits + format.mantissa_bits;
  const bool is_zero_unsigned = format.name.ends_with("UZ");
  const int sign = std::signbit(value) && !(is_zero_unsigned && value == 0) ? 1 << sign_at : 0;
  const int infinity = top << format.mantissa_bits;
  if (std::isnan(value)) {
    if (is_zero_unsigned) return static_cast<uint8_t>(1 << sign_at);
    return static_cast<uint8_t>(format.has_infinity ? infinity | 1 << (format.mantissa_bits - 1) : infinity - 1);
  }
  const double size = std::fabs(value);
  const int least = 1 - format.bias;
  const int exponent = size == 0 ? least : std::max(std::ilogb(std::min(size, 1e30)), least);
  // In units of the last place; a carry into the exponent is what the next number is.
  const double units = std::nearbyint(std::ldexp(std::min(size, 1e30), format.mantissa_bits - exponent));
  const int greatest = format.has_infinity ? infinity : (1 << sign_at) - 1;
  const double code = units + std::ldexp(exponent - least, format.mantissa_bits);
  const int magnitude = static_cast<int>(std::min<double>(code, greatest));
  if (magnitude == 0 && is_zero_unsigned) return 0;
  return static_cast<uint8_t>(sign | magnitude);
}

}  // namespace fettle::stablehlo
