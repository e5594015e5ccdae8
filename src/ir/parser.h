#pragma once
// The recursive-descent parser behind text.h.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "ir/lexer.h"

namespace fettle::text {

/// Nodes are built as written, without folding, so that printing and parsing are inverses.
class Parser {
 public:
  /// kStrict: every name must be declared. kFreeVars: an unknown name is an i64 variable. kLoops: that, and an
  /// unknown buffer is an f32 buffer whose shape is not known yet (all zeros).
  enum class Mode : uint8_t { kStrict, kFreeVars, kLoops };

  Parser(std::vector<Token> tokens, Mode mode) : tokens_(std::move(tokens)), mode_(mode) {}

  Result<Expr> whole_expr();
  Result<IrModule> module();
  Result<Func> only_func();
  /// The statements of a program without a header; declarations ("A: i8[4, 4] constant", "n: i64 in 1..9") may
  /// come first.
  Result<Stmt> bare_statements();

  /// What kLoops met, in order of appearance.
  struct Found {
    std::vector<Param> declared;  // with their shapes
    std::vector<IntParam> ints;   // declared or free
    std::vector<Buffer> guessed;  // without
    /// Stores written as `B[…] op= value`, and their op.
    std::unordered_map<const StmtNode*, BinaryOp> accumulations;
  };
  const Found& found() const { return found_; }

 private:
  // --- tokens
  const Token& token() const { return tokens_[at_]; }
  const Token& token_after() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool is_symbol(std::string_view text) const { return token().kind == TokenKind::kSymbol && token().text == text; }
  bool is_word(std::string_view text) const { return token().kind == TokenKind::kName && token().text == text; }
  bool take_symbol(std::string_view text);
  bool take_word(std::string_view text);
  Result<> expect_symbol(std::string_view text);
  Result<> expect_word(std::string_view text);
  Result<> expect(TokenKind kind, std::string_view what);
  Result<std::string> name(std::string_view what);
  Result<std::string> string();
  Result<int64_t> integer();
  Result<DType> dtype();
  tl::unexpected<Diagnostic> error(std::string message) const;
  tl::unexpected<Diagnostic> ill_formed(std::string message) const;  // E102

  // --- scopes
  void bind(const std::string& name, Var var) { vars_[name].push_back(std::move(var)); }
  void unbind(const std::string& name) { vars_[name].pop_back(); }
  void bind(const std::string& name, Buffer buffer) { buffers_[name].push_back(std::move(buffer)); }
  void unbind_buffer(const std::string& name) { buffers_[name].pop_back(); }
  Result<Var> find_var(const std::string& name);
  Result<Buffer> find_buffer(const std::string& name, size_t rank);

  // --- expressions (parse_expr.cpp)
  Result<Expr> expr(int level = 1);
  Result<Expr> unary();
  Result<Expr> primary();
  Result<Expr> number(bool negative);
  Result<std::optional<Expr>> special_float();
  Result<Expr> function(const std::string& name, bool quoted, const std::string& suffix);
  Result<Expr> combine(BinaryOp op, Expr a, Expr b);
  Result<std::vector<Expr>> exprs_until(std::string_view close);
  Result<std::vector<int64_t>> integers_until(std::string_view close);
  struct Access {
    Buffer buffer;
    std::vector<Expr> indices;
    Expr mask;
  };
  Result<Access> access();

  // --- declarations (parse_declaration.cpp), functions and statements (parser.cpp)
  Result<Buffer> buffer_declaration(std::string* name, Param* param);
  Result<Ref<const Layout>> layout();
  Result<IntParam> int_param(std::string name);
  Result<> declare_int_params();
  Result<Annotations> annotations();
  Result<Attribute> attribute();
  Result<Range> range();
  Result<std::vector<Region>> regions();
  Result<Func> func();
  Result<Stmt> suite();
  Result<Stmt> body();  // a colon, and the suite
  Result<Expr> condition();
  Result<Stmt> statements_until_dedent();
  Result<Stmt> nested_statement();
  Result<Stmt> statement();
  Result<Stmt> for_loop();
  struct Binding {
    std::string name;
    Var var;  // of a let
    Expr value;
    Buffer buffer;  // of an allocation
  };
  Result<Binding> binding();
  Stmt close(const Binding& binding, Stmt body);
  Result<Stmt> block();
  Result<> block_parts(BlockNode& block, std::vector<std::string>& allocated);
  Result<Stmt> store_or_evaluate();

  std::vector<Token> tokens_;
  Mode mode_;
  size_t at_ = 0;
  int depth_ = 0;  // of nested expressions
  int stmt_depth_ = 0;
  int height_ = 0;  // of the expression parsed last
  std::unordered_map<std::string, std::vector<Var>> vars_;
  std::unordered_map<std::string, std::vector<Buffer>> buffers_;
  Found found_;
};

}  // namespace fettle::text
