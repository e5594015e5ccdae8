#include "frontend/comprehension/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "frontend/comprehension/lexer.h"

namespace fettle::comprehension {
namespace {

struct NamedType {
  std::string_view name;
  DType dtype;
};
// The first name of a type is the one that messages have.
constexpr NamedType kTypes[] = {
    {"bool", kBool},  {"uint8", kU8},    {"uint16", kU16},  {"uint32", kU32},  {"uint64", kU64},    {"int8", kI8},
    {"int16", kI16},  {"int32", kI32},   {"int64", kI64},   {"float16", kF16}, {"bfloat16", kBF16}, {"float", kF32},
    {"double", kF64}, {"float32", kF32}, {"float64", kF64}, {"half", kF16},    {"byte", kU8},
};

constexpr std::string_view kKeywords[] = {"def", "where", "in", "exists", "for", "min", "max", "true", "false"};

bool is_keyword(std::string_view text) {
  return std::ranges::find(kKeywords, text) != std::end(kKeywords) || scalar_type(text);
}

// Weakest first; `? :` is weaker than all.
int precedence(std::string_view symbol) {
  constexpr std::pair<std::string_view, int> kLevels[] = {{"||", 1}, {"&&", 2}, {"<", 3},  {">", 3}, {"<=", 3},
                                                          {">=", 3}, {"==", 3}, {"!=", 3}, {"+", 4}, {"-", 4},
                                                          {"*", 5},  {"/", 5},  {"%", 5}};
  for (const auto& [text, level] : kLevels)
    if (text == symbol) return level;
  return 0;
}

constexpr int kMaxDepth = 200;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<std::vector<FunctionTree>> file() {
    std::vector<FunctionTree> functions;
    while (token().kind != TokenKind::kEnd) {
      FETTLE_TRY(functions.emplace_back(), function());
    }
    if (functions.empty()) return wrong("a function (def name(…) -> (…) { … })");
    return functions;
  }

 private:
  const Token& token(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(std::string_view text, size_t ahead = 0) const {
    return token(ahead).text == text && token(ahead).kind != TokenKind::kEnd;
  }
  bool take_if(std::string_view text) {
    if (!is(text)) return false;
    take();
    return true;
  }
  tl::unexpected<Diagnostic> wrong(std::string_view expected) const {
    std::string message = token().kind == TokenKind::kEnd
                              ? fmt::format("the text ends where {} should stand", expected)
                              : fmt::format("\"{}\" stands where {} should", token().text, expected);
    return fail(ErrorCode::E611, std::move(message), to_string(token().place));
  }
  Result<> expect(std::string_view text) {
    if (!take_if(text)) return wrong(fmt::format("\"{}\"", text));
    return {};
  }
  Result<std::string> name(std::string_view what) {
    if (token().kind != TokenKind::kName || is_keyword(token().text)) return wrong(what);
    return take().text;
  }

  // ( item, item, … )
  template <class Item>
  Result<> list(const Item& item) {
    FETTLE_TRY_VOID(expect("("));
    if (take_if(")")) return {};
    do FETTLE_TRY_VOID(item());
    while (take_if(","));
    return expect(")");
  }

  Result<FunctionTree> function() {
    FETTLE_TRY_VOID(expect("def"));
    FunctionTree made;
    made.place = token().place;
    FETTLE_TRY(made.name, name("the function's name"));
    FETTLE_TRY_VOID(list([&]() -> Result<> {
      FETTLE_TRY(made.params.emplace_back(), param());
      if (!made.params.back().type)
        return fail(ErrorCode::E611,
                    fmt::format("parameter \"{}\" has no type (float(M, N) {})", made.params.back().name,
                                made.params.back().name),
                    to_string(made.params.back().place));
      return {};
    }));
    FETTLE_TRY_VOID(expect("->"));
    const auto result = [&]() -> Result<> {
      FETTLE_TRY(made.results.emplace_back(), param());
      return {};
    };
    if (is("(")) {
      FETTLE_TRY_VOID(list(result));
    } else {
      FETTLE_TRY_VOID(result());
    }
    FETTLE_TRY(made.statements, statements());
    return made;
  }

  Result<ParamTree> param() {
    ParamTree made;
    if (token().kind == TokenKind::kName && scalar_type(token().text)) {
      FETTLE_TRY(made.type, type());
    }
    made.place = token().place;
    FETTLE_TRY(made.name, name("a name, or a type and a name"));
    return made;
  }

  Result<TypeTree> type() {
    TypeTree made{token().place, *scalar_type(token().text), {}};
    take();
    if (!is("(")) return made;
    FETTLE_TRY_VOID(list([&]() -> Result<> {
      const Place place = token().place;
      if (token().kind == TokenKind::kInteger) {
        FETTLE_TRY(made.extents.emplace_back(), number());
        return {};
      }
      FETTLE_TRY(const std::string size, name("a size (a name or a number)"));
      made.extents.push_back({.kind = ExprKind::kName, .place = place, .text = size});
      return {};
    }));
    return made;
  }

  Result<std::vector<StatementTree>> statements() {
    FETTLE_TRY_VOID(expect("{"));
    std::vector<StatementTree> made;
    while (!take_if("}")) {
      if (token().kind == TokenKind::kEnd) return wrong("\"}\"");
      FETTLE_TRY(made.emplace_back(), is("for") ? loop() : statement());
      take_if(";");
    }
    return made;
  }

  Result<StatementTree> loop() {
    if (++depth_ > kMaxDepth) return too_deep();
    StatementTree made;
    made.kind = StatementTree::Kind::kFor;
    made.place = take().place;
    FETTLE_TRY(made.name, name("the loop's variable"));
    FETTLE_TRY_VOID(expect("in"));
    FETTLE_TRY(made.begin, expression());
    FETTLE_TRY_VOID(expect(":"));
    FETTLE_TRY(made.end, expression());
    FETTLE_TRY(made.body, statements());
    --depth_;
    return made;
  }

  Result<StatementTree> statement() {
    StatementTree made;
    made.place = token().place;
    FETTLE_TRY(made.name, name("a statement"));
    if (is(",")) return call(std::move(made));
    if (is("("))
      FETTLE_TRY_VOID(list([&]() -> Result<> {
        FETTLE_TRY(made.indices.emplace_back(), expression());
        return {};
      }));
    FETTLE_TRY_VOID(assignment(made));
    FETTLE_TRY(made.value, expression());
    if (take_if("where")) do {
        FETTLE_TRY(made.clauses.emplace_back(), clause());
      } while (take_if(","));
    return made;
  }

  Result<StatementTree> call(StatementTree made) {
    made.kind = StatementTree::Kind::kCall;
    made.targets.push_back({made.place, made.name, {}});
    while (take_if(",")) {
      const Place place = token().place;
      FETTLE_TRY(std::string target, name("a name"));
      made.targets.push_back({place, std::move(target), {}});
    }
    FETTLE_TRY_VOID(expect("="));
    made.place = token().place;
    FETTLE_TRY(made.name, name("the function that is called"));
    FETTLE_TRY_VOID(list([&]() -> Result<> {
      FETTLE_TRY(made.arguments.emplace_back(), expression());
      return {};
    }));
    return made;
  }

  Result<> assignment(StatementTree& made) {
    constexpr std::pair<std::string_view, Assignment> kAssignments[] = {{"=", Assignment::kSet},
                                                                        {"+=", Assignment::kAdd},
                                                                        {"*=", Assignment::kMultiply},
                                                                        {"min=", Assignment::kMin},
                                                                        {"max=", Assignment::kMax}};
    std::string_view symbol = token().text;
    made.from_identity = symbol.size() > 2 && symbol.ends_with('!');
    if (made.from_identity) symbol.remove_suffix(1);
    for (const auto& [text, kind] : kAssignments)
      if (token().kind == TokenKind::kSymbol && text == symbol) {
        made.assignment = kind;
        take();
        return {};
      }
    return wrong("an assignment (=, +=, *=, min=, max=, or one of the last four with !)");
  }

  Result<ClauseTree> clause() {
    ClauseTree made{
        .kind = ClauseTree::Kind::kExists, .place = token().place, .name = {}, .begin = {}, .end = {}, .value = {}};
    if (take_if("exists")) {
      FETTLE_TRY(made.value, expression());
      return made;
    }
    FETTLE_TRY(made.name, name("\"i in a:b\", \"name = value\" or \"exists value\""));
    if (take_if("=")) {
      made.kind = ClauseTree::Kind::kLet;
      FETTLE_TRY(made.value, expression());
      return made;
    }
    made.kind = ClauseTree::Kind::kRange;
    FETTLE_TRY_VOID(expect("in"));
    FETTLE_TRY(made.begin, expression());
    FETTLE_TRY_VOID(expect(":"));
    FETTLE_TRY(made.end, expression());
    return made;
  }

  // --- expressions

  tl::unexpected<Diagnostic> too_deep() const {
    return fail(ErrorCode::E611, fmt::format("it is nested more than {} deep", kMaxDepth), to_string(token().place));
  }

  // Operators that bind more strongly than `level`; 0: all, and `? :`.
  Result<ExprTree> expression(int level = 0) {
    if (++depth_ > kMaxDepth) return too_deep();
    FETTLE_TRY(ExprTree left, unary());
    int height = 0;
    while (token().kind == TokenKind::kSymbol) {
      const int binds = precedence(token().text);
      if (binds <= level) break;
      // Trees of a long sum lean to the left: their height is held to what recursion can take.
      if (++height > kMaxTerms) return too_deep();
      const Token symbol = take();
      FETTLE_TRY(ExprTree right, expression(binds));
      ExprTree made{.kind = ExprKind::kBinary, .place = symbol.place, .text = symbol.text};
      made.args.push_back(std::move(left));
      made.args.push_back(std::move(right));
      left = std::move(made);
    }
    if (level == 0 && is("?")) {
      ExprTree made{.kind = ExprKind::kConditional, .place = take().place};
      made.args.push_back(std::move(left));
      FETTLE_TRY(made.args.emplace_back(), expression());
      FETTLE_TRY_VOID(expect(":"));
      FETTLE_TRY(made.args.emplace_back(), expression());
      left = std::move(made);
    }
    --depth_;
    return left;
  }

  Result<ExprTree> unary() {
    if (!is("-") && !is("!")) return primary();
    if (++depth_ > kMaxDepth) return too_deep();
    const Token symbol = take();
    ExprTree made{.kind = ExprKind::kUnary, .place = symbol.place, .text = symbol.text};
    FETTLE_TRY(made.args.emplace_back(), unary());
    --depth_;
    return made;
  }

  Result<ExprTree> primary() {
    const Place place = token().place;
    if (token().kind == TokenKind::kInteger || token().kind == TokenKind::kReal) return number();
    if (take_if("(")) {
      FETTLE_TRY(ExprTree made, expression());
      FETTLE_TRY_VOID(expect(")"));
      return made;
    }
    if (is("true") || is("false"))
      return ExprTree{.kind = ExprKind::kBool, .place = place, .integer = take().text == "true"};
    if (token().kind == TokenKind::kName && scalar_type(token().text)) {
      ExprTree made{.kind = ExprKind::kCast, .place = place, .dtype = *scalar_type(token().text)};
      take();
      FETTLE_TRY_VOID(expect("("));
      FETTLE_TRY(made.args.emplace_back(), expression());
      FETTLE_TRY_VOID(expect(")"));
      return made;
    }
    ExprTree made{.kind = ExprKind::kName, .place = place};
    if ((is("min") || is("max")) && is("(", 1)) {
      made.text = take().text;
    } else {
      FETTLE_TRY(made.text, name("an expression"));
    }
    if (is("(")) {
      made.kind = ExprKind::kApply;
      FETTLE_TRY_VOID(list([&]() -> Result<> {
        FETTLE_TRY(made.args.emplace_back(), expression());
        return {};
      }));
    } else if (take_if(".")) {
      made.kind = ExprKind::kExtent;
      if (token().kind != TokenKind::kInteger) return wrong("the number of a dim (A.0)");
      FETTLE_TRY(const ExprTree dim, number());
      made.integer = dim.integer;
    }
    return made;
  }

  Result<ExprTree> number() {
    const Token taken = take();
    std::string_view text = taken.text;
    ExprTree made{.kind = ExprKind::kInteger, .place = taken.place};
    const auto bad = [&] {
      return fail(ErrorCode::E611, fmt::format("{} is too large a number", taken.text), to_string(taken.place));
    };
    if (taken.kind == TokenKind::kInteger) {
      if (std::from_chars(text.data(), text.data() + text.size(), made.integer).ec != std::errc()) return bad();
      return made;
    }
    made.kind = ExprKind::kReal;
    made.is_single = text.ends_with('f') || text.ends_with('F');
    if (made.is_single) text.remove_suffix(1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), made.real);
    if (read.ec != std::errc() || !std::isfinite(made.real)) return bad();
    return made;
  }

  static constexpr int kMaxTerms = 1000;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<DType> scalar_type(std::string_view name) {
  for (const NamedType& type : kTypes)
    if (type.name == name) return type.dtype;
  return std::nullopt;
}

std::string type_name(DType dtype) {
  for (const NamedType& type : kTypes)
    if (type.dtype == dtype) return std::string(type.name);
  return dtype.to_string();
}

Result<std::vector<FunctionTree>> parse(std::string_view text) {
  FETTLE_TRY(std::vector<Token> tokens, tokenize(text));
  return Parser(std::move(tokens)).file();
}

}  // namespace fettle::comprehension
