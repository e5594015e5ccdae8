#include "ir/text_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

namespace fettle::text {
namespace {

constexpr std::string_view kReserved[] = {
    "alloc", "allocate", "block",   "call", "else", "entry", "false", "for",  "func", "if",    "in",    "inf",   "init",
    "issue", "let",      "lowered", "nan",  "pass", "reads", "root",  "true", "wait", "where", "while", "writes"};

constexpr OperatorInfo kOperators[] = {{BinaryOp::kAdd, "+", kSumLevel},
                                       {BinaryOp::kSub, "-", kSumLevel},
                                       {BinaryOp::kMul, "*", kProductLevel},
                                       {BinaryOp::kDiv, "/", kProductLevel},
                                       {BinaryOp::kFloorDiv, "//", kProductLevel},
                                       {BinaryOp::kFloorMod, "%", kProductLevel},
                                       {BinaryOp::kMin, "min", 0},
                                       {BinaryOp::kMax, "max", 0},
                                       {BinaryOp::kEq, "==", kCompareLevel},
                                       {BinaryOp::kNe, "!=", kCompareLevel},
                                       {BinaryOp::kLt, "<", kCompareLevel},
                                       {BinaryOp::kLe, "<=", kCompareLevel},
                                       {BinaryOp::kAnd, "&&", kAndLevel},
                                       {BinaryOp::kOr, "||", kOrLevel},
                                       {BinaryOp::kBitAnd, "&", kBitAndLevel},
                                       {BinaryOp::kBitOr, "|", kBitOrLevel},
                                       {BinaryOp::kBitXor, "^", kBitXorLevel},
                                       {BinaryOp::kShl, "<<", kShiftLevel},
                                       {BinaryOp::kShr, ">>", kShiftLevel},
                                       {BinaryOp::kOrderedMax, "ordered_max", 0}};

constexpr const char* kForKinds[] = {"serial", "parallel", "vectorized", "unrolled", "thread"};
constexpr const char* kTails[] = {"exact", "guard", "partition", "balance", "shift", "mask", "pad"};
constexpr const char* kIterKinds[] = {"spatial", "reduce", "scan", "opaque"};

template <size_t n, class Enum>
bool find_in(const char* const (&names)[n], std::string_view name, Enum* value) {
  const auto at = std::find(names, names + n, name);
  if (at == names + n) return false;
  *value = static_cast<Enum>(at - names);
  return true;
}

template <class T>
std::string shortest(T value) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string result(text.data(), end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

}  // namespace

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_reserved(std::string_view word) {
  return std::binary_search(std::begin(kReserved), std::end(kReserved), word) || word.starts_with("inf.") ||
         word.starts_with("nan.");
}

bool is_identifier(std::string_view word) {
  bool start = true, first_part = true;
  for (char c : word) {
    if (c == '.') {
      if (start) return false;
      start = true;
      first_part = false;
    } else {
      if (!is_letter(c) && !is_digit(c)) return false;
      if (start && first_part && is_digit(c)) return false;
      start = false;
    }
  }
  return !start;
}

std::string quoted_name(const std::string& name) {
  if (is_identifier(name) && !is_reserved(name)) return name;
  std::string text = "`";
  for (char c : name) {
    if (c == '`' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text + "`";
}

const OperatorInfo& operator_info(BinaryOp op) { return kOperators[static_cast<int>(op)]; }

const OperatorInfo* find_operator(std::string_view symbol) {
  for (const OperatorInfo& info : kOperators)
    if (info.level > 0 && symbol == info.symbol) return &info;
  return nullptr;
}

const OperatorInfo* find_function_operator(std::string_view name) {
  for (const OperatorInfo& info : kOperators)
    if (info.level == 0 && name == info.symbol) return &info;
  return nullptr;
}

bool is_comparison(BinaryOp op) { return operator_info(op).level == kCompareLevel; }

DType inferred_call_type(std::string_view name, const std::vector<Expr>& args) {
  if (args.empty()) return kI32;
  const DType first = args.front().dtype();
  if (name == "isnan" || name == "likely") return kBool.with_lanes(first.lanes);
  return first;
}

bool is_plain_call_name(const std::string& name) {
  if (!is_identifier(name) || is_reserved(name) || find_function_operator(name)) return false;
  for (const char* taken : {"select", "ramp", "broadcast", "shuffle"})
    if (name == taken) return false;
  const size_t dot = name.rfind('.');
  return !parse_dtype(dot == std::string::npos ? name : name.substr(dot + 1)).has_value();
}

std::string float_text(double value, DType dtype) {
  const std::string suffix = dtype == kF32 ? "" : dtype.to_string();
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + (suffix.empty() ? "inf" : "inf." + suffix);
  if (std::isnan(value)) {
    const uint64_t payload = std::bit_cast<uint64_t>(value) & ~(uint64_t{1} << 63);
    std::string text = sign + (suffix.empty() ? "nan" : "nan." + suffix);
    if (payload != 0x7ff8000000000000ULL) {
      if (suffix.empty()) text += ".f32";
      text += fmt::format(".{:016x}", payload);
    }
    return text;
  }
  if (dtype.bits == 32) return shortest(static_cast<float>(value)) + suffix;
  return shortest(value) + suffix;
}

std::string int_text(int64_t value, DType dtype) {
  if (dtype == kBool && (value == 0 || value == 1)) return value ? "true" : "false";
  return dtype == kI64 ? fmt::format("{}", value) : fmt::format("{}{}", value, dtype.to_string());
}

std::string string_text(std::string_view value) {
  std::string text = "\"";
  for (char c : value) {
    switch (c) {
      case '"':
        text += "\\\"";
        break;
      case '\\':
        text += "\\\\";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 32)
          text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
          text += c;
    }
  }
  return text + "\"";
}

const char* for_kind_name(ForKind kind) { return kForKinds[static_cast<int>(kind)]; }
bool find_for_kind(std::string_view name, ForKind* kind) { return find_in(kForKinds, name, kind); }

const char* tail_name(Tail tail) { return kTails[static_cast<int>(tail)]; }
bool find_tail(std::string_view name, Tail* tail) { return find_in(kTails, name, tail); }

const char* iter_kind_name(IterKind kind) { return kIterKinds[static_cast<int>(kind)]; }
bool find_iter_kind(std::string_view name, IterKind* kind) { return find_in(kIterKinds, name, kind); }

}  // namespace fettle::text
