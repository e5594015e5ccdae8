#include "ir/type.h"

#include <charconv>

#include <fmt/core.h>

namespace fettle {

std::string DType::to_string() const {
  std::string text;
  switch (code) {
    case TypeCode::kInt:
      text = fmt::format("i{}", bits);
      break;
    case TypeCode::kUInt:
      text = fmt::format("u{}", bits);
      break;
    case TypeCode::kFloat:
      text = fmt::format("f{}", bits);
      break;
    case TypeCode::kBFloat:
      text = fmt::format("bf{}", bits);
      break;
    case TypeCode::kBool:
      text = "bool";
      break;
    case TypeCode::kHandle:
      text = "handle";
      break;
  }
  if (lanes > 1) text += fmt::format("x{}", lanes);
  return text;
}

Result<DType> parse_dtype(std::string_view text) {
  const auto bad = [&] { return fail(ErrorCode::E101, fmt::format("'{}' is no type", text)); };
  DType type;
  std::string_view rest;
  const auto starts = [&](std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    rest = text.substr(prefix.size());
    return true;
  };
  const auto number = [&](int low, int high) -> int {
    int value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || value < low || value > high) return -1;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  };
  if (starts("bool")) {
    type = kBool;
  } else if (starts("handle")) {
    type = kHandle;
  } else {
    if (starts("bf"))
      type.code = TypeCode::kBFloat;
    else if (starts("f"))
      type.code = TypeCode::kFloat;
    else if (starts("i"))
      type.code = TypeCode::kInt;
    else if (starts("u"))
      type.code = TypeCode::kUInt;
    else
      return bad();
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
