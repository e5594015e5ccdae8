// Expressions of the text form.

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "ir/parser.h"
#include "ir/text_rules.h"

namespace fettle::text {
namespace {

constexpr int kMaxDepth = 250;    // nesting of brackets and the like
constexpr int kMaxHeight = 2000;  // of the tree: walks over it are recursive

// An i64 literal takes the type of what it meets.
Expr adapted(const Expr& e, DType type) {
  const auto* imm = e.as<IntImmNode>();
  if (!imm || imm->dtype != kI64 || type == kI64) return e;
  if (type.code == TypeCode::kHandle || type.is_bool()) return e;
  return constant(static_cast<double>(imm->value), type);
}

// Left and right as one type, where literals allow it.
void adapt(Expr& a, Expr& b) {
  if (a.dtype() == b.dtype()) return;
  b = adapted(b, a.dtype());
  if (a.dtype() != b.dtype()) a = adapted(a, b.dtype());
}

}  // namespace

Result<Expr> Parser::combine(BinaryOp op, Expr a, Expr b) {
  adapt(a, b);
  const DType type = a.dtype();
  if (op == BinaryOp::kOrderedMax && !type.is_float()) op = BinaryOp::kMax;
  const std::string symbol = operator_info(op).symbol;
  if (type != b.dtype())
    return ill_formed(
        fmt::format("the operands of {} differ in type: {} and {}", symbol, type.to_string(), b.dtype().to_string()));
  const bool integer = type.is_int(), floating = type.is_float(), boolean = type.is_bool();
  bool fits = false;
  switch (op) {
    case BinaryOp::kDiv:
      fits = floating;
      break;
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      fits = integer;
      break;
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
      fits = boolean;
      break;
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      fits = integer || boolean || floating;
      break;
    default:
      fits = integer || floating;
      break;
  }
  if ((op == BinaryOp::kBitAnd || op == BinaryOp::kBitOr || op == BinaryOp::kBitXor) && floating) fits = false;
  if (!fits) return ill_formed(fmt::format("{} does not apply to {}", symbol, type.to_string()));
  const DType result = is_comparison(op) ? kBool.with_lanes(type.lanes) : type;
  return Expr(make_ref<const BinaryNode>(op, std::move(a), std::move(b), result));
}

Result<Expr> Parser::expr(int level) {
  if (++depth_ > kMaxDepth) return error("the expression is nested too deeply");
  FETTLE_TRY(Expr left, unary());
  int height = height_;
  while (token().kind == TokenKind::kSymbol) {
    std::string symbol = token().text;
    const bool swapped = symbol == ">" || symbol == ">=";
    if (swapped) symbol = symbol == ">" ? "<" : "<=";
    const OperatorInfo* info = find_operator(symbol);
    if (!info || info->level < level) break;
    ++at_;
    FETTLE_TRY(Expr right, expr(info->level + 1));
    height = std::max(height, height_) + 1;
    if (height > kMaxHeight) return error("the expression is too long");
    if (info->level == kCompareLevel && token().kind == TokenKind::kSymbol) {
      const OperatorInfo* next = find_operator(token().text);
      if ((next && next->level == kCompareLevel) || token().text == ">" || token().text == ">=")
        return error("comparisons do not chain; use && or brackets");
    }
    if (swapped) std::swap(left, right);
    FETTLE_TRY(left, combine(info->op, std::move(left), std::move(right)));
  }
  --depth_;
  height_ = height;
  return left;
}

Result<Expr> Parser::unary() {
  if (take_symbol("!")) {
    if (++depth_ > kMaxDepth) return error("the expression is nested too deeply");
    FETTLE_TRY(Expr a, unary());
    --depth_;
    ++height_;
    if (!a.dtype().is_bool()) return ill_formed("! applies to bools");
    return Expr(make_ref<const NotNode>(std::move(a)));
  }
  if (is_symbol("-")) {
    ++at_;
    if (token().kind == TokenKind::kInt || token().kind == TokenKind::kFloat) return number(true);
    FETTLE_TRY(std::optional<Expr> special, special_float());
    if (special) {
      const auto* imm = special->as<FloatImmNode>();
      return Expr(make_ref<const FloatImmNode>(-imm->value, imm->dtype));
    }
    if (++depth_ > kMaxDepth) return error("the expression is nested too deeply");
    FETTLE_TRY(Expr a, unary());
    --depth_;
    ++height_;
    return combine(BinaryOp::kSub, 0, std::move(a));
  }
  if (take_symbol("&")) {
    FETTLE_TRY(Access place, access());
    if (place.mask) return error("an address has no mask");
    return address_of(std::move(place.buffer), std::move(place.indices));
  }
  return primary();
}

Result<Expr> Parser::number(bool negative) {
  const Token& t = token();
  DType type = t.kind == TokenKind::kInt ? kI64 : kF32;
  if (!t.suffix.empty()) {
    Result<DType> parsed = parse_dtype(t.suffix);
    if (!parsed) return error(fmt::format("'{}' is no type", t.suffix));
    type = *parsed;
  }
  const char* begin = t.text.data();
  const char* end = begin + t.text.size();
  if (type.is_float()) {
    double value = 0;
    std::from_chars_result parsed;
    if (type == kF32) {  // rounded once, from the decimal text
      float single = 0;
      parsed = std::from_chars(begin, end, single);
      value = single;
    } else {
      parsed = std::from_chars(begin, end, value);
    }
    if (parsed.ec != std::errc{} || parsed.ptr != end) return error("the number is out of range");
    ++at_;
    return Expr(make_ref<const FloatImmNode>(negative ? -value : value, type));
  }
  if (t.kind == TokenKind::kFloat || !(type.is_int() || type.is_bool()))
    return error(fmt::format("not a number of type {}", type.to_string()));
  uint64_t magnitude = 0;
  const auto parsed = std::from_chars(begin, end, magnitude);
  if (parsed.ec != std::errc{} || parsed.ptr != end || (negative && magnitude > uint64_t{1} << 63) ||
      (!negative && type.code != TypeCode::kUInt && magnitude > static_cast<uint64_t>(INT64_MAX)))
    return error("the number is out of range");
  ++at_;
  const auto value = static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
  return Expr(make_ref<const IntImmNode>(value, type));
}

// inf, nan, inf.f64, nan.bf16, nan.f32.7ff8000000000001 (bits of the double)
Result<std::optional<Expr>> Parser::special_float() {
  if (token().kind != TokenKind::kName) return std::optional<Expr>();
  std::string_view word = token().text;
  if (word != "inf" && word != "nan" && !word.starts_with("inf.") && !word.starts_with("nan."))
    return std::optional<Expr>();
  double value = word[0] == 'i' ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  DType type = kF32;
  word.remove_prefix(3);
  if (!word.empty()) {
    word.remove_prefix(1);
    const size_t dot = word.find('.');
    Result<DType> parsed = parse_dtype(word.substr(0, dot));
    if (!parsed || !parsed->is_float()) return error("not a type of floats");
    type = *parsed;
    if (dot != std::string_view::npos) {
      uint64_t bits = 0;
      const std::string_view digits = word.substr(dot + 1);
      const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
      value = std::bit_cast<double>(bits);
      if (end.ec != std::errc{} || end.ptr != digits.data() + digits.size() || !std::isnan(value))
        return error("not the bits of a NaN");
    }
  }
  ++at_;
  return std::optional<Expr>(Expr(make_ref<const FloatImmNode>(value, type)));
}

Result<Expr> Parser::primary() {
  const Token& t = token();
  height_ = 0;
  switch (t.kind) {
    case TokenKind::kInt:
    case TokenKind::kFloat:
      return number(false);
    case TokenKind::kSymbol:
      if (t.text == "(") {
        ++at_;
        FETTLE_TRY(Expr inner, expr());
        FETTLE_TRY_VOID(expect_symbol(")"));
        return inner;
      }
      break;
    case TokenKind::kName:
    case TokenKind::kQuoted: {
      const bool quoted = t.kind == TokenKind::kQuoted;
      const Token& next = token_after();
      if (next.kind == TokenKind::kSymbol && next.text == "[") {
        if (!quoted && is_reserved(t.text)) break;
        FETTLE_TRY(Access place, access());
        return load(std::move(place.buffer), std::move(place.indices), std::move(place.mask));
      }
      if (!quoted) {
        FETTLE_TRY(std::optional<Expr> special, special_float());
        if (special) return *special;
        if (take_word("true")) return bool_imm(true);
        if (take_word("false")) return bool_imm(false);
      }
      const std::string word = t.text;
      if (next.kind == TokenKind::kSymbol && next.text == "(") {
        const std::string suffix = t.suffix;
        ++at_;
        return function(word, quoted, suffix);
      }
      if (!quoted && is_reserved(word)) break;
      FETTLE_TRY(Var var, find_var(word));
      ++at_;
      return Expr(var);
    }
    default:
      break;
  }
  return error("an expression was expected");
}

Result<std::vector<Expr>> Parser::exprs_until(std::string_view close) {
  std::vector<Expr> list;
  int height = 0;
  if (!take_symbol(close)) {
    do {
      FETTLE_TRY(Expr e, expr());
      list.push_back(std::move(e));
      height = std::max(height, height_);
    } while (take_symbol(","));
    FETTLE_TRY_VOID(expect_symbol(close));
  }
  height_ = height + 1;
  return list;
}

Result<std::vector<int64_t>> Parser::integers_until(std::string_view close) {
  std::vector<int64_t> list;
  if (take_symbol(close)) return list;
  do {
    FETTLE_TRY(const int64_t value, integer());
    list.push_back(value);
  } while (take_symbol(","));
  FETTLE_TRY_VOID(expect_symbol(close));
  return list;
}

Result<Parser::Access> Parser::access() {
  Access place;
  const size_t start = at_;
  FETTLE_TRY(const std::string buffer, name("a buffer"));
  FETTLE_TRY_VOID(expect_symbol("["));
  int height = 0;
  if (!take_symbol("]")) {
    do {
      FETTLE_TRY(Expr e, expr());
      height = std::max(height, height_);
      if (!e.dtype().is_int()) return ill_formed("an index must be an integer");
      place.indices.push_back(std::move(e));
    } while (take_symbol(","));
    if (take_word("if")) {
      FETTLE_TRY(place.mask, expr());
      height = std::max(height, height_);
      if (!place.mask.dtype().is_bool()) return ill_formed("a mask must be of bools");
    }
    FETTLE_TRY_VOID(expect_symbol("]"));
  }
  const size_t end = std::exchange(at_, start);
  FETTLE_TRY(place.buffer, find_buffer(buffer, place.indices.size()));
  at_ = end;
  height_ = height + 1;
  return place;
}

// After the name of a function, at its opening bracket.
Result<Expr> Parser::function(const std::string& word, bool quoted, const std::string& suffix) {
  const size_t start = at_;
  ++at_;
  if (!quoted && word == "shuffle") {
    FETTLE_TRY_VOID(expect_symbol("["));
    FETTLE_TRY(std::vector<Expr> vectors, exprs_until("]"));
    FETTLE_TRY_VOID(expect_symbol(","));
    FETTLE_TRY_VOID(expect_symbol("["));
    FETTLE_TRY(const std::vector<int64_t> picks, integers_until("]"));
    FETTLE_TRY_VOID(expect_symbol(")"));
    int64_t total = 0;
    for (const Expr& v : vectors) {
      if (v.dtype().element() != vectors.front().dtype().element())
        return ill_formed("the vectors of a shuffle differ in type");
      total += v.dtype().lanes;
    }
    if (picks.empty() || picks.size() > 4096) return ill_formed("a shuffle has 1 to 4096 lanes");
    std::vector<int> lanes;
    for (int64_t lane : picks) {
      if (lane < 0 || lane >= total) return ill_formed(fmt::format("lane {} of a shuffle does not exist", lane));
      lanes.push_back(static_cast<int>(lane));
    }
    return shuffle(std::move(vectors), std::move(lanes));
  }
  FETTLE_TRY(std::vector<Expr> args, exprs_until(")"));
  const auto wants = [&](size_t count) -> Result<> {
    if (args.size() == count) return {};
    at_ = start;
    return error(fmt::format("{} takes {} arguments", word, count));
  };
  if (!quoted) {
    if (const OperatorInfo* info = find_function_operator(word)) {
      FETTLE_TRY_VOID(wants(2));
      return combine(info->op, args[0], args[1]);
    }
    if (word == "select") {
      FETTLE_TRY_VOID(wants(3));
      adapt(args[1], args[2]);
      if (!args[0].dtype().is_bool() || args[1].dtype() != args[2].dtype())
        return ill_formed("select takes a bool and two values of one type");
      return Expr(make_ref<const SelectNode>(args[0], args[1], args[2]));
    }
    if (word == "ramp" || word == "broadcast") {
      FETTLE_TRY_VOID(wants(word == "ramp" ? 3 : 2));
      const int64_t* lanes = as_int(args.back());
      if (!lanes || *lanes < 2 || *lanes > 4096) return ill_formed("2 to 4096 lanes");
      for (size_t i = 0; i + 1 < args.size(); ++i)
        if (args[i].dtype().lanes != 1) return ill_formed(word + " takes scalars");
      const int count = static_cast<int>(*lanes);
      if (word == "broadcast") return Expr(make_ref<const BroadcastNode>(args[0], count));
      adapt(args[0], args[1]);
      if (args[0].dtype() != args[1].dtype()) return ill_formed("base and stride of a ramp differ in type");
      return Expr(make_ref<const RampNode>(args[0], args[1], count));
    }
    if (Result<DType> type = parse_dtype(word)) {
      FETTLE_TRY_VOID(wants(1));
      if (type->lanes != args[0].dtype().lanes) return ill_formed("a cast keeps the number of lanes");
      return Expr(make_ref<const CastNode>(args[0], *type));
    }
  }
  // The type, where it is written, is the last part of the name; that of a quoted name follows the quotes.
  std::string function_name = word;
  DType type = inferred_call_type(word, args);
  if (quoted && !suffix.empty()) {
    FETTLE_TRY(type, parse_dtype(suffix));
  }
  const size_t dot = word.rfind('.');
  if (!quoted && dot != std::string::npos) {
    if (Result<DType> written = parse_dtype(word.substr(dot + 1))) {
      type = *written;
      function_name = word.substr(0, dot);
    }
  }
  return call(std::move(function_name), std::move(args), type);
}

}  // namespace fettle::text
