// Functions and statements of the text form.
#include "ir/parser.h"

#include <charconv>

#include <fmt/core.h>

#include "ir/text.h"
#include "ir/text_rules.h"

namespace fettle::text {

// --- tokens -----------------------------------------------------------------------------------------------------

tl::unexpected<Diagnostic> Parser::error(std::string message) const {
  const Token& t = token();
  switch (t.kind) {
    case TokenKind::kNewline:
      message += ", but the line ends";
      break;
    case TokenKind::kIndent:
      message += ", but the line is indented further";
      break;
    case TokenKind::kDedent:
      message += ", but the indentation ends";
      break;
    case TokenKind::kEnd:
      message += ", but the text ends";
      break;
    default:
      message += fmt::format(", at '{}'", t.text);
      break;
  }
  return fail(ErrorCode::E101, std::move(message), fmt::format("line {}, column {}", t.line, t.column));
}

tl::unexpected<Diagnostic> Parser::ill_formed(std::string message) const {
  return fail(ErrorCode::E102, std::move(message), fmt::format("line {}, column {}", token().line, token().column));
}

bool Parser::take_symbol(std::string_view text) {
  if (!is_symbol(text)) return false;
  ++at_;
  return true;
}

bool Parser::take_word(std::string_view text) {
  if (!is_word(text)) return false;
  ++at_;
  return true;
}

Result<> Parser::expect_symbol(std::string_view text) {
  if (!take_symbol(text)) return error(fmt::format("'{}' was expected", text));
  return {};
}

Result<> Parser::expect_word(std::string_view text) {
  if (!take_word(text)) return error(fmt::format("'{}' was expected", text));
  return {};
}

Result<> Parser::expect(TokenKind kind, std::string_view what) {
  if (token().kind != kind) return error(fmt::format("{} was expected", what));
  ++at_;
  return {};
}

Result<std::string> Parser::name(std::string_view what) {
  const Token& t = token();
  if (t.kind == TokenKind::kQuoted || (t.kind == TokenKind::kName && !is_reserved(t.text))) {
    ++at_;
    return t.text;
  }
  return error(fmt::format("{} was expected", what));
}

Result<std::string> Parser::string() {
  const Token& t = token();
  FETTLE_TRY_VOID(expect(TokenKind::kString, "a text in quotes"));
  return t.text;
}

Result<int64_t> Parser::integer() {
  const bool negative = take_symbol("-");
  const Token& t = token();
  if (t.kind != TokenKind::kInt || !t.suffix.empty()) return error("an integer was expected");
  int64_t value = 0;
  const std::string digits = negative ? "-" + t.text : t.text;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc{}) return error("the number is out of range");
  ++at_;
  return value;
}

Result<DType> Parser::dtype() {
  if (token().kind == TokenKind::kName)
    if (Result<DType> type = parse_dtype(token().text)) {
      ++at_;
      return type;
    }
  return error("a type was expected");
}

// --- scopes -----------------------------------------------------------------------------------------------------

Result<Var> Parser::find_var(const std::string& name) {
  const auto found = vars_.find(name);
  if (found != vars_.end() && !found->second.empty()) return found->second.back();
  if (mode_ == Mode::kStrict) return ill_formed(fmt::format("there is no variable '{}' here", name));
  Var var = make_var(name);
  vars_[name].insert(vars_[name].begin(), var);  // outermost
  found_.ints.push_back({.var = var});
  return var;
}

Result<Buffer> Parser::find_buffer(const std::string& name, size_t rank) {
  const auto found = buffers_.find(name);
  if (found != buffers_.end() && !found->second.empty()) {
    const Buffer& buffer = found->second.back();
    if (mode_ == Mode::kStrict || buffer->shape.size() == rank)
      return buffer;  // a strict program is checked as a whole
    return ill_formed(fmt::format("'{}' has {} dims, and {} indices here", name, buffer->shape.size(), rank));
  }
  if (mode_ == Mode::kStrict) return ill_formed(fmt::format("there is no buffer '{}' here", name));
  Buffer buffer = make_buffer(name, std::vector<Expr>(rank, Expr(0)));
  buffers_[name].push_back(buffer);
  found_.guessed.push_back(buffer);
  return buffer;
}

// --- functions --------------------------------------------------------------------------------------------------

Result<Func> Parser::func() {
  auto result = make_ref<FuncNode>();
  const bool lowered = take_word("lowered");
  FETTLE_TRY_VOID(expect_word("func"));
  FETTLE_TRY(result->name, name("the function's name"));
  FETTLE_TRY_VOID(expect_symbol("("));
  vars_.clear();
  buffers_.clear();
  found_.ints.clear();
  FETTLE_TRY_VOID(declare_int_params());
  result->int_params = found_.ints;
  size_t ints = 0;
  for (bool first = true; !take_symbol(")"); first = false) {
    if (!first) FETTLE_TRY_VOID(expect_symbol(","));
    if (at_ + 3 < tokens_.size() && tokens_[at_ + 1].text == ":" && tokens_[at_ + 3].text != "[") {
      FETTLE_TRY(std::string param_name, name("a parameter"));
      ++at_;
      FETTLE_TRY_VOID(int_param(std::move(param_name)).map([](const IntParam&) {}));
      ++ints;
      continue;
    }
    if (ints > 0) return error("buffers come before integers");
    Param param;
    std::string buffer;
    FETTLE_TRY_VOID(buffer_declaration(&buffer, &param).map([](const Buffer&) {}));
    if (buffers_.contains(buffer)) return ill_formed(fmt::format("two parameters are named '{}'", buffer));
    bind(buffer, param.buffer);
    result->params.push_back(std::move(param));
  }
  FETTLE_TRY(result->annotations, annotations());
  FETTLE_TRY_VOID(expect_symbol(":"));
  if (lowered) {
    FETTLE_TRY(result->body, suite());
    return Func(result);
  }
  auto root = make_ref<BlockNode>();
  root->name = "root";
  if (token().kind == TokenKind::kNewline) {
    ++at_;
    FETTLE_TRY_VOID(expect(TokenKind::kIndent, "an indented body"));
    if (take_word("root")) {
      FETTLE_TRY(root->annotations, annotations());
      FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
    }
    std::vector<std::string> allocated;
    FETTLE_TRY_VOID(block_parts(*root, allocated));
    FETTLE_TRY(root->body, statements_until_dedent());
  } else {
    FETTLE_TRY(root->body, suite());
  }
  result->body = Stmt(root);
  return Func(result);
}

Result<IrModule> Parser::module() {
  IrModule result;
  while (token().kind != TokenKind::kEnd) {
    const bool entry = take_word("entry");
    FETTLE_TRY(Func f, func());
    if (entry) {
      if (!result.entry.empty()) return ill_formed("a module has one entry");
      result.entry = f->name;
    }
    if (result.funcs.contains(f->name)) return ill_formed(fmt::format("two functions are named '{}'", f->name));
    result.funcs[f->name] = f;
  }
  return result;
}

Result<Func> Parser::only_func() {
  FETTLE_TRY(Func result, func());
  if (token().kind != TokenKind::kEnd) return error("one function was expected");
  return result;
}

Result<Expr> Parser::whole_expr() {
  FETTLE_TRY(Expr result, expr());
  if (token().kind == TokenKind::kNewline) ++at_;
  if (token().kind != TokenKind::kEnd) return error("the end of the expression was expected");
  return result;
}

Result<Stmt> Parser::bare_statements() {
  while (token_after().kind == TokenKind::kSymbol && token_after().text == ":" &&
         (token().kind == TokenKind::kQuoted || (token().kind == TokenKind::kName && !is_reserved(token().text)))) {
    if (at_ + 3 < tokens_.size() && tokens_[at_ + 3].text != "[") {
      FETTLE_TRY(std::string param_name, name("a parameter"));
      ++at_;
      FETTLE_TRY(IntParam param, int_param(param_name));
      bind(param_name, param.var);
      found_.ints.push_back(std::move(param));
    } else {
      Param param;
      std::string buffer;
      FETTLE_TRY_VOID(buffer_declaration(&buffer, &param).map([](const Buffer&) {}));
      bind(buffer, param.buffer);
      found_.declared.push_back(std::move(param));
    }
    FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
  }
  FETTLE_TRY(Stmt body, statements_until_dedent());
  if (token().kind != TokenKind::kEnd) return error("the end of the program was expected");
  return body;
}

// --- statements -------------------------------------------------------------------------------------------------

// After a colon: statements on the next lines, indented, or one on the same line.
Result<Stmt> Parser::suite() {
  if (token().kind == TokenKind::kNewline) {
    ++at_;
    FETTLE_TRY_VOID(expect(TokenKind::kIndent, "an indented body"));
    return statements_until_dedent();
  }
  return nested_statement();
}

Result<Stmt> Parser::body() {
  FETTLE_TRY_VOID(expect_symbol(":"));
  return suite();
}

Result<Expr> Parser::condition() {
  FETTLE_TRY(Expr result, expr());
  if (result.dtype() != kBool) return ill_formed("a condition must be a bool");
  return result;
}

// A let or an allocation without a colon takes the rest of its suite. There may be many in a row, so they are closed
// at the end of the suite, not by recursion.
Result<Stmt> Parser::statements_until_dedent() {
  struct Open {
    Binding binding;
    std::vector<Stmt> before;
  };
  std::vector<Open> open;
  std::vector<Stmt> stmts;
  while (token().kind != TokenKind::kDedent && token().kind != TokenKind::kEnd) {
    if (is_word("let") || is_word("allocate")) {
      FETTLE_TRY(Binding binding, this->binding());
      if (take_symbol(":")) {
        FETTLE_TRY(Stmt inner, suite());
        stmts.push_back(close(binding, std::move(inner)));
      } else {
        FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
        open.push_back({std::move(binding), std::exchange(stmts, {})});
        if (open.size() > 2000) return error("too many lets in a row");
      }
      continue;
    }
    FETTLE_TRY(Stmt s, nested_statement());
    stmts.push_back(std::move(s));
  }
  if (token().kind == TokenKind::kDedent) ++at_;
  while (!open.empty()) {
    Stmt inner = close(open.back().binding, seq(std::move(stmts)));
    stmts = std::move(open.back().before);
    stmts.push_back(std::move(inner));
    open.pop_back();
  }
  return seq(std::move(stmts));
}

Result<Stmt> Parser::nested_statement() {
  if (++stmt_depth_ > 400) return error("statements are nested too deeply");
  Result<Stmt> result = statement();
  --stmt_depth_;
  return result;
}

Result<Stmt> Parser::statement() {
  const Token& t = token();
  if (t.kind == TokenKind::kName) {
    if (t.text == "for") return for_loop();
    if (t.text == "block") return block();
    if (t.text == "let" || t.text == "allocate") {
      FETTLE_TRY(Binding binding, this->binding());
      FETTLE_TRY(Stmt inner, body());
      return close(binding, std::move(inner));
    }
    if (take_word("if")) {
      FETTLE_TRY(Expr condition, condition());
      FETTLE_TRY(Stmt then_body, body());
      Stmt else_body;
      if (take_word("else")) {
        FETTLE_TRY(else_body, body());
      }
      return if_then(std::move(condition), std::move(then_body), std::move(else_body));
    }
    if (take_word("while")) {
      FETTLE_TRY(Expr condition, condition());
      FETTLE_TRY(Stmt inner, body());
      return Stmt(make_ref<WhileNode>(std::move(condition), std::move(inner)));
    }
    if (take_word("call")) {
      FETTLE_TRY(std::string callee, name("a function"));
      FETTLE_TRY_VOID(expect_symbol("("));
      FETTLE_TRY(std::vector<Expr> args, exprs_until(")"));
      FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
      return call_func(std::move(callee), std::move(args));
    }
    if (take_word("issue")) {
      FETTLE_TRY(std::string queue, string());
      FETTLE_TRY(Stmt inner, body());
      return Stmt(make_ref<AsyncNode>(AsyncKind::kIssue, std::move(queue), nullptr, std::move(inner)));
    }
    if (take_word("wait")) {
      FETTLE_TRY(std::string queue, string());
      FETTLE_TRY_VOID(expect_word("pending"));
      FETTLE_TRY(Expr pending, expr());
      FETTLE_TRY(Stmt inner, body());
      return Stmt(make_ref<AsyncNode>(AsyncKind::kWait, std::move(queue), std::move(pending), std::move(inner)));
    }
    if (take_word("pass")) {
      FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
      return Stmt();
    }
  }
  return store_or_evaluate();
}

Result<Stmt> Parser::for_loop() {
  ++at_;
  FETTLE_TRY(const std::string var_name, name("the loop variable"));
  DType type = kI64;
  if (take_symbol(":")) {
    FETTLE_TRY(type, dtype());
  }
  FETTLE_TRY_VOID(expect_word("in"));
  FETTLE_TRY(Expr extent, expr());
  Expr min = constant(0, type);
  if (take_symbol("+:")) {
    min = std::move(extent);
    FETTLE_TRY(extent, expr());
  }
  auto loop = make_ref<ForNode>(make_var(var_name, type), std::move(min), std::move(extent), Stmt());
  if (token().kind == TokenKind::kName && !is_word("serial") && find_for_kind(token().text, &loop->loop_kind)) ++at_;
  if (take_word("axis")) {
    FETTLE_TRY_VOID(expect_symbol("("));
    FETTLE_TRY(loop->thread_axis, string());
    FETTLE_TRY_VOID(expect_symbol(")"));
  }
  if (take_word("tail")) {
    FETTLE_TRY_VOID(expect_symbol("("));
    if (!find_tail(token().text, &loop->tail)) return error("a kind of tail was expected");
    ++at_;
    FETTLE_TRY_VOID(expect_symbol(")"));
  }
  FETTLE_TRY(loop->annotations, annotations());
  bind(var_name, loop->var);
  FETTLE_TRY(loop->body, body());
  unbind(var_name);
  return Stmt(loop);
}

// let x = value / allocate T: f32[4], up to the colon or the end of the line; what it names is in scope until close().
Result<Parser::Binding> Parser::binding() {
  Binding result;
  if (take_word("allocate")) {
    FETTLE_TRY(result.buffer, buffer_declaration(&result.name, nullptr));
    bind(result.name, result.buffer);
    return result;
  }
  ++at_;
  FETTLE_TRY(result.name, name("a variable"));
  std::optional<DType> type;
  if (take_symbol(":")) {
    FETTLE_TRY(type, dtype());
  }
  FETTLE_TRY_VOID(expect_symbol("="));
  FETTLE_TRY(result.value, expr());
  result.var = make_var(result.name, type.value_or(result.value.dtype()));
  bind(result.name, result.var);
  return result;
}

Stmt Parser::close(const Binding& binding, Stmt body) {
  if (binding.buffer) {
    unbind_buffer(binding.name);
    return allocate(binding.buffer, std::move(body));
  }
  unbind(binding.name);
  return let(binding.var, binding.value, std::move(body));
}

Result<Stmt> Parser::block() {
  ++at_;
  auto result = make_ref<BlockNode>();
  FETTLE_TRY(result->name, name("the block's name"));
  FETTLE_TRY_VOID(expect_symbol("("));
  std::vector<std::string> names;
  while (!take_symbol(")")) {
    if (!names.empty()) FETTLE_TRY_VOID(expect_symbol(","));
    IterVar iter;
    FETTLE_TRY(std::string iter_name, name("an iterator"));
    FETTLE_TRY_VOID(expect_symbol(":"));
    if (!find_iter_kind(token().text, &iter.kind)) return error("spatial, reduce, scan or opaque was expected");
    ++at_;
    FETTLE_TRY_VOID(expect_symbol("["));
    FETTLE_TRY(iter.extent, expr());
    FETTLE_TRY_VOID(expect_symbol("]"));
    DType type = kI64;
    if (!is_symbol("=")) {
      FETTLE_TRY(type, dtype());
    }
    FETTLE_TRY_VOID(expect_symbol("="));
    FETTLE_TRY(iter.binding, expr());
    iter.var = make_var(iter_name, type);
    result->iters.push_back(std::move(iter));
    names.push_back(std::move(iter_name));
  }
  if (take_word("where")) {
    FETTLE_TRY(result->predicate, expr());
    if (result->predicate.dtype() != kBool) return ill_formed("a predicate must be a bool");
  }
  FETTLE_TRY(result->annotations, annotations());
  FETTLE_TRY_VOID(expect_symbol(":"));
  for (size_t i = 0; i < names.size(); ++i) bind(names[i], result->iters[i].var);
  std::vector<std::string> allocated;
  if (token().kind == TokenKind::kNewline) {
    ++at_;
    FETTLE_TRY_VOID(expect(TokenKind::kIndent, "an indented body"));
    FETTLE_TRY_VOID(block_parts(*result, allocated));
    FETTLE_TRY(result->body, statements_until_dedent());
  } else {
    FETTLE_TRY(result->body, suite());
  }
  for (const std::string& iter : names) unbind(iter);
  for (const std::string& buffer : allocated) unbind_buffer(buffer);
  return Stmt(result);
}

// alloc, reads, writes and init, in any order.
Result<> Parser::block_parts(BlockNode& result, std::vector<std::string>& allocated) {
  while (true) {
    if (take_word("alloc")) {
      std::string buffer_name;
      FETTLE_TRY(Buffer buffer, buffer_declaration(&buffer_name, nullptr));
      FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
      bind(buffer_name, buffer);
      allocated.push_back(buffer_name);
      result.allocations.push_back(std::move(buffer));
    } else if (take_word("reads")) {
      FETTLE_TRY(result.reads, regions());
    } else if (take_word("writes")) {
      FETTLE_TRY(result.writes, regions());
    } else if (take_word("init")) {
      FETTLE_TRY(result.init, body());
    } else {
      return {};
    }
  }
}

// B[i] = value, B[i] += value (also *= min= max= ordered_max=), or an expression for its effect.
Result<Stmt> Parser::store_or_evaluate() {
  FETTLE_TRY(Expr left, expr());
  std::optional<BinaryOp> op;
  if (take_symbol("+=")) {
    op = BinaryOp::kAdd;
  } else if (take_symbol("*=")) {
    op = BinaryOp::kMul;
  } else if (const OperatorInfo* extreme =
                 token().kind == TokenKind::kName ? find_function_operator(token().text) : nullptr;
             extreme && token_after().text == "=") {
    op = extreme->op;
    at_ += 2;
  } else if (!take_symbol("=")) {
    FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
    return evaluate(std::move(left));
  }
  const auto* place = left.as<LoadNode>();
  if (!place) return error("only elements of buffers can be assigned");
  FETTLE_TRY(Expr value, expr());
  if (op) {
    FETTLE_TRY(value, *op == BinaryOp::kOrderedMax ? combine(*op, std::move(value), left)
                                                   : combine(*op, left, std::move(value)));
  }
  if (const int64_t* literal = as_int(value); literal && value.dtype() == kI64 && value.kind() == ExprKind::kIntImm &&
                                              left.dtype() != kI64 &&
                                              (left.dtype().is_int() || left.dtype().is_float()))
    value = constant(static_cast<double>(*literal), left.dtype());
  if (value.dtype() != left.dtype())
    return ill_formed(fmt::format("a value of type {} is stored in '{}', which holds {}", value.dtype().to_string(),
                                  place->buffer->name, left.dtype().to_string()));
  FETTLE_TRY_VOID(expect(TokenKind::kNewline, "the end of the line"));
  Stmt result = store(place->buffer, place->indices, std::move(value), place->mask);
  if (op) found_.accumulations[result.get()] = *op;
  return result;
}

}  // namespace fettle::text

namespace fettle {

Result<Func> parse_func(std::string_view source) {
  FETTLE_TRY(auto tokens, text::tokenize(source));
  FETTLE_TRY(Func func, text::Parser(std::move(tokens), text::Parser::Mode::kStrict).only_func());
  FETTLE_TRY_VOID(check_well_formed(func));
  return func;
}

Result<IrModule> parse_module(std::string_view source) {
  FETTLE_TRY(auto tokens, text::tokenize(source));
  FETTLE_TRY(IrModule module, text::Parser(std::move(tokens), text::Parser::Mode::kStrict).module());
  for (const auto& [name, func] : module.funcs) FETTLE_TRY_VOID(check_well_formed(func));
  return module;
}

Result<Expr> parse_expr(std::string_view source) {
  FETTLE_TRY(auto tokens, text::tokenize(source));
  return text::Parser(std::move(tokens), text::Parser::Mode::kFreeVars).whole_expr();
}

}  // namespace fettle
