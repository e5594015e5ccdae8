#include "ir/lexer.h"

#include <fmt/core.h>

#include "ir/text_rules.h"

namespace fettle::text {
namespace {

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      if (line_start_ && depth_ == 0) {
        FETTLE_TRY_VOID(indentation());
        continue;
      }
      FETTLE_TRY_VOID(token());
    }
    end_line();
    while (indents_.size() > 1) {
      indents_.pop_back();
      push(TokenKind::kDedent);
    }
    push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  int column() const { return static_cast<int>(at_ - line_begin_) + 1; }
  void push(TokenKind kind, std::string text = {}) { tokens_.push_back({kind, std::move(text), {}, line_, column()}); }
  tl::unexpected<Diagnostic> error(std::string message) const {
    return fail(ErrorCode::E101, std::move(message), fmt::format("line {}, column {}", line_, column()));
  }
  void next_line() {
    ++at_;
    ++line_;
    line_begin_ = at_;
    line_start_ = depth_ == 0;
  }
  void end_line() {
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::kNewline && tokens_.back().kind != TokenKind::kDedent)
      push(TokenKind::kNewline);
  }
  void skip_comment() {
    while (at_ < source_.size() && source_[at_] != '\n') ++at_;
  }

  Result<> indentation() {
    size_t width = 0;
    while (peek() == ' ') ++at_, ++width;
    if (peek() == '\t') return error("a tab in the indentation; use spaces");
    if (peek() == '\r') ++at_;
    if (peek() == '#') skip_comment();
    if (peek() == '\n') return next_line(), Result<>();
    if (at_ == source_.size()) return {};
    line_start_ = false;
    if (tokens_.empty()) indents_.back() = width;  // the whole text may be indented
    if (width > indents_.back()) {
      if (indents_.size() > 1000) return error("statements are nested too deeply");
      indents_.push_back(width);
      push(TokenKind::kIndent);
    }
    while (indents_.size() > 1 && width < indents_.back()) {
      indents_.pop_back();
      push(TokenKind::kDedent);
    }
    if (width != indents_.back()) return error("the indentation matches no outer line");
    return {};
  }

  Result<> token() {
    const char c = peek();
    if (c == '\n') {
      if (depth_ == 0) end_line();
      next_line();
      return {};
    }
    if (c == ' ' || c == '\t' || c == '\r') return ++at_, Result<>();
    if (c == '#') return skip_comment(), Result<>();
    if (is_letter(c)) return name(), Result<>();
    if (is_digit(c)) return number(), Result<>();
    if (c == '`') return quoted(TokenKind::kQuoted);
    if (c == '"') return quoted(TokenKind::kString);
    for (std::string_view symbol : {"+=", "*=", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "//", "->", "..", "+:"})
      if (source_.substr(at_).starts_with(symbol)) return emit_symbol(symbol);
    if (std::string_view("+-*/%&|^<>!=()[]{},:@").find(c) == std::string_view::npos)
      return error(fmt::format("unexpected character '{}'", c));
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    return emit_symbol(source_.substr(at_, 1));
  }

  Result<> emit_symbol(std::string_view symbol) {
    push(TokenKind::kSymbol, std::string(symbol));
    at_ += symbol.size();
    return {};
  }

  void name() {
    const size_t begin = at_;
    const int col = column();
    while (is_letter(peek()) || is_digit(peek()) || (peek() == '.' && (is_letter(peek(1)) || is_digit(peek(1))))) ++at_;
    tokens_.push_back({TokenKind::kName, std::string(source_.substr(begin, at_ - begin)), {}, line_, col});
  }

  void number() {
    const size_t begin = at_;
    const int col = column();
    TokenKind kind = TokenKind::kInt;
    while (is_digit(peek())) ++at_;
    if (peek() == '.' && peek(1) != '.') {
      kind = TokenKind::kFloat;
      ++at_;
      while (is_digit(peek())) ++at_;
    }
    if ((peek() == 'e' || peek() == 'E') &&
        (is_digit(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && is_digit(peek(2))))) {
      kind = TokenKind::kFloat;
      at_ += 2;
      while (is_digit(peek())) ++at_;
    }
    const size_t end = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    tokens_.push_back({kind, std::string(source_.substr(begin, end - begin)),
                       std::string(source_.substr(end, at_ - end)), line_, col});
  }

  Result<> quoted(TokenKind kind) {
    const char quote = source_[at_];
    const int col = column();
    std::string text;
    for (++at_; peek() != quote; ++at_) {
      char c = peek();
      if (at_ >= source_.size() || c == '\n') return error("the closing quote is missing");
      if (c == '\\') {
        c = source_.size() > at_ + 1 ? source_[++at_] : '\0';
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (c == 'x') {
          int value = 0;
          for (int i = 0; i < 2; ++i) {
            const char digit = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
            if (!is_digit(digit) && (digit < 'a' || digit > 'f')) return error("\\x needs two hexadecimal digits");
            value = value * 16 + (is_digit(digit) ? digit - '0' : digit - 'a' + 10);
            ++at_;
          }
          c = static_cast<char>(value);
        } else if (c != '\\' && c != '`' && c != '"') {
          return error("unknown escape");
        }
      }
      text += c;
    }
    ++at_;
    std::string suffix;  // `name`.f32(…)
    if (kind == TokenKind::kQuoted && peek() == '.' && is_letter(peek(1)))
      for (++at_; is_letter(peek()) || is_digit(peek()); ++at_) suffix += peek();
    tokens_.push_back({kind, std::move(text), std::move(suffix), line_, col});
    return {};
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  std::vector<size_t> indents_{0};
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1, depth_ = 0;
  bool line_start_ = true;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fettle::text
