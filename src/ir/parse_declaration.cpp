// Declarations of the text form: buffers, integer parameters, annotations, regions.
#include <fmt/core.h>

#include "ir/parser.h"
#include "ir/text_rules.h"

namespace fettle::text {

Result<Buffer> Parser::buffer_declaration(std::string* buffer_name, Param* param) {
  auto buffer = make_ref<BufferNode>();
  FETTLE_TRY(buffer->name, name("a buffer's name"));
  FETTLE_TRY_VOID(expect_symbol(":"));
  FETTLE_TRY(buffer->dtype, dtype());
  FETTLE_TRY_VOID(expect_symbol("["));
  FETTLE_TRY(buffer->shape, exprs_until("]"));
  while (true) {
    if (take_word("strides")) {
      FETTLE_TRY_VOID(expect_symbol("["));
      FETTLE_TRY(buffer->strides, exprs_until("]"));
    } else if (take_symbol("@")) {
      FETTLE_TRY(buffer->scope, name("a memory scope"));
    } else if (take_word("align")) {
      FETTLE_TRY_VOID(expect_symbol("("));
      FETTLE_TRY(const int64_t alignment, integer());
      FETTLE_TRY_VOID(expect_symbol(")"));
      if (alignment < 1 || alignment > 1 << 30 || (alignment & (alignment - 1)) != 0)
        return ill_formed("an alignment is a power of two");
      buffer->alignment_bytes = static_cast<int>(alignment);
    } else if (is_word("layout")) {
      FETTLE_TRY(buffer->layout, layout());
    } else if (param && take_word("output")) {
      param->kind = ParamKind::kOutput;
    } else if (param && take_word("constant")) {
      param->kind = ParamKind::kConstant;
    } else if (param && take_word("free_layout")) {
      param->free_layout = true;
    } else {
      break;
    }
  }
  *buffer_name = buffer->name;
  Buffer result = buffer;
  if (param) param->buffer = result;
  return result;
}

// layout(n: 1, c: 64 -> n, c // 16, c % 16)
Result<Ref<const Layout>> Parser::layout() {
  ++at_;
  auto result = make_ref<Layout>();
  FETTLE_TRY_VOID(expect_symbol("("));
  std::vector<std::string> names;
  while (!is_symbol("->")) {
    if (!names.empty()) FETTLE_TRY_VOID(expect_symbol(","));
    FETTLE_TRY(std::string input, name("a logical index"));
    FETTLE_TRY_VOID(expect_symbol(":"));
    FETTLE_TRY(Expr extent, expr());
    result->logical_shape.push_back(std::move(extent));
    result->to_physical.inputs.push_back(make_var(input));
    names.push_back(std::move(input));
  }
  ++at_;
  for (size_t i = 0; i < names.size(); ++i) bind(names[i], result->to_physical.inputs[i]);
  FETTLE_TRY(result->to_physical.outputs, exprs_until(")"));
  for (const std::string& input : names) unbind(input);
  return Ref<const Layout>(result);
}

// After "name:": i64 in 1..64 % 4 typically 16
Result<IntParam> Parser::int_param(std::string param_name) {
  IntParam param;
  FETTLE_TRY(const DType type, dtype());
  if (!type.is_int() || type.is_vector()) return ill_formed("an integer parameter has an integer type");
  param.var = make_var(std::move(param_name), type);
  if (take_word("in")) {
    FETTLE_TRY(param.min, integer());
    FETTLE_TRY_VOID(expect_symbol(".."));
    if (token().kind == TokenKind::kInt || is_symbol("-")) {
      FETTLE_TRY(param.max, integer());
    }
  }
  if (take_symbol("%")) {
    FETTLE_TRY(param.multiple_of, integer());
    if (param.multiple_of < 1) return ill_formed("a number of which another is a multiple is at least 1");
  }
  if (take_word("typically")) {
    FETTLE_TRY(param.typical, integer());
    if (param.typical < 1) return ill_formed("what an integer parameter typically is is at least 1");
  }
  if (param.min > param.max) return ill_formed("the range of an integer parameter is empty");
  return param;
}

// Binds the integer parameters of a list, up to its closing bracket, before the buffers' shapes speak of them.
Result<> Parser::declare_int_params() {
  const size_t start = at_;
  int depth = 0;
  for (bool begins = true; token().kind != TokenKind::kEnd && !(depth == 0 && is_symbol(")")); ++at_) {
    if (begins && depth == 0 && at_ + 3 < tokens_.size() && tokens_[at_ + 1].text == ":" &&
        tokens_[at_ + 3].text != "[") {
      const Token& t = token();
      const size_t at = at_;
      FETTLE_TRY(std::string param_name, name("a parameter"));
      ++at_;
      FETTLE_TRY(IntParam param, int_param(t.text));
      bind(param_name, param.var);
      found_.ints.push_back(std::move(param));
      at_ = at;
    }
    if (token().kind == TokenKind::kSymbol) {
      const std::string& symbol = token().text;
      if (symbol == "(" || symbol == "[" || symbol == "{") ++depth;
      if (symbol == ")" || symbol == "]" || symbol == "}") --depth;
      begins = symbol == ",";
    } else {
      begins = false;
    }
  }
  at_ = start;
  return {};
}

Result<Attribute> Parser::attribute() {
  if (token().kind == TokenKind::kString) {
    FETTLE_TRY(std::string value, string());
    return Attribute(std::move(value));
  }
  if (take_symbol("[")) {
    FETTLE_TRY(std::vector<int64_t> values, integers_until("]"));
    return Attribute(std::move(values));
  }
  const size_t number_at = is_symbol("-") ? at_ + 1 : at_;
  if (tokens_[number_at].kind == TokenKind::kInt) {
    FETTLE_TRY(const int64_t value, integer());
    return Attribute(value);
  }
  if (tokens_[number_at].kind == TokenKind::kFloat && tokens_[number_at].suffix.empty())
    tokens_[number_at].suffix = "f64";
  FETTLE_TRY(const Expr value, unary());
  const auto* imm = value.as<FloatImmNode>();
  if (!imm) return error("a number, a text or a list of integers was expected");
  return Attribute(imm->value);
}

// {key = value, …}, or nothing
Result<Annotations> Parser::annotations() {
  Annotations result;
  if (!take_symbol("{")) return result;
  while (!take_symbol("}")) {
    if (!result.entries.empty()) FETTLE_TRY_VOID(expect_symbol(","));
    FETTLE_TRY(std::string key, name("a key"));
    FETTLE_TRY_VOID(expect_symbol("="));
    FETTLE_TRY(Attribute value, attribute());
    if (result.find(key)) return ill_formed(fmt::format("the key '{}' occurs twice", key));
    result.set(std::move(key), std::move(value));
  }
  return result;
}

Result<Range> Parser::range() {
  FETTLE_TRY(Expr min, expr());
  if (!take_symbol("+:")) return Range{std::move(min), Expr(1)};
  FETTLE_TRY(Expr extent, expr());
  return Range{std::move(min), std::move(extent)};
}

Result<std::vector<Region>> Parser::regions() {
  std::vector<Region> list;
  do {
    Region region;
    const size_t start = at_;
    FETTLE_TRY(const std::string buffer, name("a buffer"));
    FETTLE_TRY_VOID(expect_symbol("["));
    if (!take_symbol("]")) {
      do {
        FETTLE_TRY(Range r, range());
        region.ranges.push_back(std::move(r));
      } while (take_symbol(","));
      FETTLE_TRY_VOID(expect_symbol("]"));
    }
    const size_t end = std::exchange(at_, start);
    FETTLE_TRY(region.buffer, find_buffer(buffer, region.ranges.size()));
    at_ = end;
    list.push_back(std::move(region));
  } while (take_symbol(","));
  FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
  return list;
}

}  // namespace fettle::text
