#include "codegen/c_family/helpers.h"

#include <fmt/format.h>

#include "base/check.h"

namespace fettle::c_family {
namespace {

/// Replaces {T} and the like in `text`.
std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "{" + key + "}";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  }
  return text;
}

std::string signed_minimum(const Dialect& d, int bits) {
  if (bits == 64) return fmt::format("(-9223372036854775807{} - 1)", d.i64_suffix);
  if (bits == 32) return "(-2147483647 - 1)";
  return std::to_string(-(1 << (bits - 1)));
}

std::string integer_operation(std::string_view op, DType type, const Dialect& d) {
  const bool is_signed = type.code == TypeCode::kInt;
  const char* body = nullptr;
  std::string power;
  // U: an unsigned type that is not promoted to int.
  if (op == "add") body = "return ({T})(({U})a + ({U})b);";
  if (op == "sub") body = "return ({T})(({U})a - ({U})b);";
  if (op == "mul") body = "return ({T})(({U})a * ({U})b);";
  if (op == "min") body = "return a < b ? a : b;";
  if (op == "max") body = "return a < b ? b : a;";
  if (op == "lt") body = "return a < b;";
  if (op == "le") body = "return a <= b;";
  if (op == "abs") body = is_signed ? "return a < 0 ? ({T})(({U})0 - ({U})a) : a;" : "return a;";
  if (op == "shl") body = "return ({N})b < {bits} ? ({T})(({U})a << b) : ({T})0;";
  if (op == "shr") {
    body = is_signed ? "return a < 0 ? ({T})~(({T})~a >> (({N})b < {bits} ? b : {last})) : ({T})(a >> (({N})b < {bits} "
                       "? b : {last}));"
                     : "return b < {bits} ? ({T})(a >> b) : ({T})0;";
  }
  if (op == "floordiv") {
    body = is_signed ? "if (b == -1) return ({T})(({U})0 - ({U})a);\n"
                       "  if (b == 0) return a;\n"
                       "  const {T} q = ({T})(a / b), r = ({T})(a % b);\n"
                       "  return r != 0 && (r < 0) != (b < 0) ? ({T})(q - 1) : q;"
                     : "return b == 0 ? a : ({T})(a / b);";
  }
  if (op == "floormod") {
    body = is_signed ? "if (b == -1 || b == 0) return 0;\n"
                       "  const {T} r = ({T})(a % b);\n"
                       "  return r != 0 && (r < 0) != (b < 0) ? ({T})(r + b) : r;"
                     : "return b == 0 ? ({T})0 : ({T})(a % b);";
  }
  if (op == "pow") {
    const char* by_squaring =
        "{U} result = 1, square = ({U})a;\n"
        "  for ({N} left = ({N})b; left != 0; left >>= 1) {\n"
        "    if (left & 1) result *= square;\n"
        "    square *= square;\n"
        "  }\n"
        "  return ({T})result;";
    const char* inverses = "if (b < 0) return a == 1 || a == -1 ? ({T})(b & 1 ? a : 1) : ({T})0;\n  ";
    power = std::string(is_signed ? inverses : "") + by_squaring;
    body = power.c_str();
  }
  FETTLE_CHECK_MSG(body, std::string(op));
  const bool comparison = op == "lt" || op == "le";
  const std::string head = fmt::format("{}{} {}_{}({{T}} a{})", d.helper_qualifier, comparison ? d.bool_type : "{T}",
                                       op, type.to_string(), op == "abs" ? "" : ", {T} b");
  return filled(head + " {\n  " + body + "\n}\n", {{"T", d.value_type(type)},
                                                   {"U", d.uint_types[type.bits == 64 ? 3 : 2]},
                                                   {"N", d.uint_types[type.bits == 64   ? 3
                                                                      : type.bits == 32 ? 2
                                                                      : type.bits == 16 ? 1
                                                                                        : 0]},
                                                   {"bits", std::to_string(type.bits)},
                                                   {"last", std::to_string(type.bits - 1)}});
}

std::string float_operation(std::string_view op, DType type, const Dialect& d) {
  const bool single = type.bits == 32;
  const std::string suffix = single ? d.f32_math_suffix : "", one = single ? "1.0f" : "1.0";
  std::string body;
  if (op == "min") body = "return a < b || a != a ? a : b;";
  if (op == "max") body = "return a > b || a != a ? a : b;";
  if (op == "ordered_max") body = "return a > b ? a : b;";
  if (op == "is_nan") body = "return a != a;";
  if (op == "rsqrt") body = fmt::format("return {} / sqrt{}(a);", one, suffix);
  if (op == "sigmoid") body = fmt::format("return {0} / ({0} + exp{1}(-a));", one, suffix);
  FETTLE_CHECK_MSG(!body.empty(), std::string(op));
  const std::string t = d.value_type(type);
  const bool two = op == "min" || op == "max" || op == "ordered_max";
  return fmt::format("{}{} {}_{}({} a{}) {{\n  {}\n}}\n", d.helper_qualifier, op == "is_nan" ? d.bool_type : t, op,
                     type.to_string(), t, two ? ", " + t + " b" : "", body);
}

/// float → integer
std::string saturating(DType to, DType from, const Dialect& d) {
  const bool is_signed = to.code == TypeCode::kInt;
  const int exponent = is_signed ? to.bits - 1 : to.bits;
  const std::string f = from.bits == 64 ? "" : "f";
  const std::string end = fmt::format(
      "{:.1f}{}", exponent == 64 ? 18446744073709551616.0 : static_cast<double>(uint64_t{1} << exponent), f);
  const std::string t = d.value_type(to);
  const std::string greatest =
      fmt::format("({})~({})0{}", d.uint_types[3], d.uint_types[3], fmt::format(" >> {}", 64 - exponent));
  return fmt::format(
      "{}{} {}_from_{}({} a) {{\n"
      "  if (a != a) return 0;\n"
      "  if (a >= {}) return ({})({});\n"
      "  if (a <= {}{}) return {};\n"
      "  return ({})a;\n"
      "}}\n",
      d.helper_qualifier, t, to.to_string(), from.to_string(), d.value_type(from), end, t, greatest,
      is_signed ? "-" : "", is_signed ? end : "0.0" + f, is_signed ? signed_minimum(d, to.bits) : "0", t);
}

constexpr const char* kBits = R"({Q}{U} bits_of_{f}({T} a) {
  union { {T} value; {U} bits; } both;
  both.value = a;
  return both.bits;
}
)";
constexpr const char* kOfBits = R"({Q}{T} {f}_of_bits({U} a) {
  union { {T} value; {U} bits; } both;
  both.bits = a;
  return both.value;
}
)";
constexpr const char* kF32FromF16 = R"({Q}float f32_from_f16({u16} h) {
  const {u32} sign = ({u32})(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
  if (exponent == 31u) return f32_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0u) return f32_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 5.9604644775390625e-08f;
  return sign ? -magnitude : magnitude;
}
)";
constexpr const char* kF16FromF32 = R"({Q}{u16} f16_from_f32(float a) {
  const {u32} bits = bits_of_f32(a), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return ({u16})(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return ({u16})(sign | 0x7c00u);
  if (magnitude >= 0x38800000u)
    return ({u16})(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
  if (magnitude < 0x33000000u) return ({u16})sign;
  const {u32} shift = 126u - (magnitude >> 23), full = (magnitude & 0x7fffffu) | 0x800000u;
  const {u32} rest = full & ((1u << shift) - 1u), half_unit = 1u << (shift - 1u), kept = full >> shift;
  return ({u16})(sign | (kept + (rest > half_unit || (rest == half_unit && (kept & 1u)) ? 1u : 0u)));
}
)";
// A double is first rounded to float with the last bit made odd if anything is lost, which rounds correctly afterwards.
constexpr const char* kOddFloat = R"({Q}float odd_f32(double a) {
  const float nearest = (float)a;
  const {u32} bits = bits_of_f32(nearest), magnitude = bits & 0x7fffffffu;
  if (a != a || (double)nearest == a || (bits & 1u)) return nearest;
  if (magnitude == 0u) return f32_of_bits(bits | 1u);
  const double distance = nearest < 0.0f ? (double)nearest - a : a - (double)nearest;
  return f32_of_bits(distance > 0.0 ? bits + 1u : bits - 1u);
}
)";
constexpr const char* kBf16FromF32 = R"({Q}{u16} bf16_from_f32(float a) {
  const {u32} bits = bits_of_f32(a);
  if (a != a) return ({u16})(bits >> 16 | 0x40u);
  return ({u16})((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
)";
constexpr const char* kF32FromBf16 = R"({Q}float f32_from_bf16({u16} h) {
  return f32_of_bits(({u32})h << 16);
}
)";

}  // namespace

Helper helper(std::string_view name, const Dialect& d) {
  if (const auto own = d.helpers.find(name); own != d.helpers.end()) return {d.helper_qualifier + own->second, {}};
  const auto text = [&](const char* pattern, std::vector<std::string> uses, DType type = kF32) {
    return Helper{filled(pattern, {{"Q", d.helper_qualifier},
                                   {"f", type.to_string()},
                                   {"T", d.value_type(type)},
                                   {"U", d.uint_types[type.bits == 64 ? 3 : 2]},
                                   {"u16", d.uint_types[1]},
                                   {"u32", d.uint_types[2]}}),
                  std::move(uses)};
  };
  if (name == "bits_of_f32") return text(kBits, {});
  if (name == "bits_of_f64") return text(kBits, {}, kF64);
  if (name == "f32_of_bits") return text(kOfBits, {});
  if (name == "f64_of_bits") return text(kOfBits, {}, kF64);
  if (name == "f32_from_f16") return text(kF32FromF16, {"f32_of_bits"});
  if (name == "f16_from_f32") return text(kF16FromF32, {"bits_of_f32"});
  if (name == "f32_from_bf16") return text(kF32FromBf16, {"f32_of_bits"});
  if (name == "bf16_from_f32") return text(kBf16FromF32, {"bits_of_f32"});
  if (name == "odd_f32") return text(kOddFloat, {"bits_of_f32", "f32_of_bits"});
  if (name == "round_f16" || name == "round_bf16") {
    const std::string type(name.substr(6));
    return {fmt::format("{0}float round_{1}(float a) {{\n  return f32_from_{1}({1}_from_f32(a));\n}}\n",
                        d.helper_qualifier, type),
            {"f32_from_" + type, type + "_from_f32"}};
  }
  if (name == "round_f16_f64" || name == "round_bf16_f64") {
    const std::string type(name.substr(6, name.size() - 10));
    return {fmt::format("{0}float round_{1}_f64(double a) {{\n  return round_{1}(odd_f32(a));\n}}\n",
                        d.helper_qualifier, type),
            {"round_" + type, "odd_f32"}};
  }
  if (const size_t from = name.find("_from_"); from != std::string_view::npos) {
    const auto to = parse_dtype(name.substr(0, from)), source = parse_dtype(name.substr(from + 6));
    FETTLE_CHECK(to && source && to->is_int() && source->is_float());
    return {saturating(*to, *source, d), {}};
  }
  const size_t cut = name.rfind('_');
  const auto type = parse_dtype(name.substr(cut + 1));
  FETTLE_CHECK_MSG(cut != std::string_view::npos && type, std::string(name));
  const std::string_view op = name.substr(0, cut);
  return {type->is_float() ? float_operation(op, *type, d) : integer_operation(op, *type, d), {}};
}

}  // namespace fettle::c_family
