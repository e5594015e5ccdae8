#include "frontend/comprehension/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fettle::comprehension {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_in_name(char c) { return begins_name(c) || is_digit(c); }

// The longest come first.
constexpr std::array<std::string_view, 36> kSymbols = {"min=!", "max=!", "min=", "max=", "+=!", "*=!", "+=", "*=", "->",
                                                       "==",    "!=",    "<=",   ">=",   "&&",  "||",  "{",  "}",  "(",
                                                       ")",     "[",     "]",    ",",    ":",   "?",   "=",  "+",  "-",
                                                       "*",     "/",     "%",    "<",    ">",   "!",   ".",  ";",  "^"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    while (true) {
      const bool spaced = skip();
      if (!tokens.empty()) tokens.back().touches_next = !spaced;
      if (at_ == text_.size()) {
        tokens.push_back({TokenKind::kEnd, "", place_});
        return tokens;
      }
      FETTLE_TRY(const Token token, next(tokens));
      tokens.push_back(token);
    }
  }

 private:
  char peek(size_t by = 0) const { return at_ + by < text_.size() ? text_[at_ + by] : '\0'; }
  std::string take(size_t count) {
    std::string taken(text_.substr(at_, count));
    at_ += count;
    place_.column += static_cast<int>(count);
    return taken;
  }
  bool skip() {
    const size_t begin = at_;
    bool in_comment = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        in_comment = false;
        ++place_.line;
        place_.column = 1;
        continue;
      }
      if (c == '#') in_comment = true;
      if (!in_comment && c != ' ' && c != '\t' && c != '\r' && c != '\f' && c != '\v') break;
      ++place_.column;
    }
    return at_ > begin;
  }

  Result<Token> next(const std::vector<Token>& before) {
    const Place place = place_;
    // A.0: what follows a name's dot is a dim, no fraction.
    const bool is_dim = before.size() >= 2 && before.back().text == "." && before.back().touches_next;
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)) && !follows_name(before))) {
      if (is_dim) {
        size_t n = 0;
        while (is_digit(peek(n))) ++n;
        return Token{TokenKind::kInteger, take(n), place};
      }
      return number();
    }
    for (const std::string_view symbol : kSymbols)
      if (text_.substr(at_).starts_with(symbol)) {
        // "min" followed by "==": nothing is compared with a keyword, but it is not an assignment either.
        if (begins_name(symbol[0]) && peek(symbol.size()) == '=') break;
        return Token{TokenKind::kSymbol, take(symbol.size()), place};
      }
    if (!begins_name(peek())) {
      const auto byte = static_cast<unsigned char>(peek());
      const std::string shown = byte >= ' ' && byte < 127 ? fmt::format("'{}'", peek()) : fmt::format("byte {}", byte);
      return fail(ErrorCode::E611, fmt::format("nothing begins with {}", shown), to_string(place));
    }
    size_t n = 1;
    while (is_in_name(peek(n))) ++n;
    return Token{TokenKind::kName, take(n), place};
  }

  bool follows_name(const std::vector<Token>& before) const {
    return !before.empty() && before.back().kind == TokenKind::kName && before.back().touches_next;
  }

  Result<Token> number() {
    const Place place = place_;
    size_t n = 0;
    bool is_real = false;
    while (is_digit(peek(n))) ++n;
    if (peek(n) == '.') {
      is_real = true;
      ++n;
      while (is_digit(peek(n))) ++n;
    }
    if (peek(n) == 'e' || peek(n) == 'E') {
      const size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 2 : 1;
      if (is_digit(peek(n + sign))) {
        is_real = true;
        n += sign;
        while (is_digit(peek(n))) ++n;
      }
    }
    if (peek(n) == 'f' || peek(n) == 'F') {
      is_real = true;
      ++n;
    }
    if (is_in_name(peek(n))) {
      while (is_in_name(peek(n))) ++n;
      return fail(ErrorCode::E611, fmt::format("\"{}\" is no number", text_.substr(at_, std::min<size_t>(n, 40))),
                  to_string(place));
    }
    return Token{is_real ? TokenKind::kReal : TokenKind::kInteger, take(n), place};
  }

  std::string_view text_;
  size_t at_ = 0;
  Place place_;
};

}  // namespace

std::string to_string(Place place) { return fmt::format("{}:{}", place.line, place.column); }

Result<std::vector<Token>> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace fettle::comprehension
