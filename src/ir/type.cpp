#include "ir/type.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/core.h>

namespace fettle {
namespace {

// By TypeCode.
constexpr std::string_view kTypeNames[] = {"i",      "u",        "f",          "bf",     "bool",
                                           "handle", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
                                           "f8e8m0", "f4e2m1",   "string"};
constexpr bool has_widths(TypeCode code) { return code < TypeCode::kBool; }

}  // namespace

std::string DType::to_string() const {
  std::string text(kTypeNames[static_cast<int>(code)]);
  if (has_widths(code)) text += fmt::format("{}", bits);
  if (lanes > 1) text += fmt::format("x{}", lanes);
  return text;
}

Result<DType> parse_dtype(std::string_view text) {
  const auto bad = [&] { return fail(ErrorCode::E101, fmt::format("'{}' is no type", text)); };
  for (const DType whole : {kF8E4M3FN, kF8E4M3FNUZ, kF8E5M2, kF8E5M2FNUZ, kF8E8M0, kF4E2M1, kString})
    if (text == kTypeNames[static_cast<int>(whole.code)]) return whole;
  std::string_view rest = text.substr(0, text.find_first_of("0123456789x"));
  const auto name = std::find(std::begin(kTypeNames), std::end(kTypeNames), rest);
  if (name == std::end(kTypeNames)) return bad();
  DType type{static_cast<TypeCode>(name - std::begin(kTypeNames))};
  rest = text.substr(rest.size());
  const auto number = [&](int low, int high) -> int {
    int value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || value < low || value > high) return -1;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  };
  if (!has_widths(type.code)) {
    type = type.code == TypeCode::kBool ? kBool : kHandle;
  } else {
    const int bits = number(1, 64);
    if (bits < 0 || (bits & (bits - 1)) != 0) return bad();
    type.bits = static_cast<uint8_t>(bits);
  }
  if (!rest.empty()) {
    if (rest.front() != 'x') return bad();
    rest.remove_prefix(1);
    const int lanes = number(2, 4096);
    if (lanes < 0 || !rest.empty()) return bad();
    type.lanes = static_cast<uint16_t>(lanes);
  }
  return type;
}

}  // namespace fettle
