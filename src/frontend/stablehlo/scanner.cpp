#include "frontend/stablehlo/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace fettle::stablehlo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }

}  // namespace

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

double Number::as_double() const {
  if (is_hex) {
    const auto bits = as_int();
    return bits ? static_cast<double>(*bits) : 0;
  }
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::result_out_of_range) {
    const size_t exponent = text.find_first_of("eE");
    const bool is_tiny = exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-');
    value = is_tiny ? 0 : HUGE_VAL;
  }
  return is_negative ? -value : value;
}

std::optional<int64_t> Number::as_int() const {
  uint64_t value = 0;
  const std::string_view digits = is_hex ? text.substr(2) : text;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  if (is_negative && value > uint64_t{1} << 63) return std::nullopt;
  return static_cast<int64_t>(is_negative ? 0 - value : value);
}

std::string unescape(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\\' || i + 1 >= source.size()) {
      result += source[i];
      continue;
    }
    const char next = source[++i];
    const int high = hex_digit(next), low = i + 1 < source.size() ? hex_digit(source[i + 1]) : -1;
    if (high >= 0 && low >= 0) {
      result += static_cast<char>(high * 16 + low);
      ++i;
    } else {
      result += next == 'n' ? '\n' : next == 't' ? '\t' : next;
    }
  }
  return result;
}

void Scanner::fail(Diagnostic error) {
  if (!error_) error_ = std::move(error);
  at_ = text_.size();
}

int Scanner::line_of(size_t position) const {
  if (position < counted_.position) counted_ = {};
  counted_.line +=
      static_cast<int>(std::ranges::count(text_.substr(counted_.position, position - counted_.position), '\n'));
  counted_.position = position;
  return counted_.line;
}

std::string Scanner::place_of(size_t position) const {
  const size_t end = text_.substr(0, position).rfind('\n');
  return fmt::format("line {}, column {}", line_of(position),
                     position - (end == std::string_view::npos ? 0 : end + 1) + 1);
}

void Scanner::fail_at(size_t position, ErrorCode code, std::string message) {
  if (error_) return;
  fail(Diagnostic(code, std::move(message), fmt::format("{}, {}", label_, place_of(position))));
}

void Scanner::expected(std::string_view what) {
  if (error_) return;
  skip_blanks();
  std::string_view rest = text_.substr(at_, 24);
  rest = rest.substr(0, rest.find('\n'));
  std::string found;
  for (const char c : rest) found += c >= ' ' && c <= '~' ? c : '?';
  fail_at(at_, ErrorCode::E602,
          fmt::format("expected {}, found {}", what, at_ >= text_.size() ? "the end" : "'" + found + "'"));
}

void Scanner::seek(size_t position) {
  if (ok()) at_ = position;
}

void Scanner::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_blanks();
  return at_ >= text_.size();
}

char Scanner::peek() {
  skip_blanks();
  return peek_here();
}

bool Scanner::starts_with(std::string_view sign) {
  skip_blanks();
  return text_.substr(at_).starts_with(sign);
}

bool Scanner::consume(std::string_view token) {
  if (!starts_with(token)) return false;
  const size_t end = at_ + token.size();
  if (is_letter(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!consume(token)) expected(fmt::format("'{}'", token));
}

bool Scanner::consume_here(char c) {
  if (peek_here() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

std::string_view Scanner::word() {
  skip_blanks();
  if (!is_letter(peek_here())) return {};
  const size_t start = at_;
  while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view Scanner::suffix() {
  const size_t start = at_;
  if (is_digit(peek_here())) {
    while (is_digit(peek_here())) ++at_;
  } else {
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-')) {
      if (text_.substr(at_).starts_with("->")) break;
      ++at_;
    }
  }
  if (at_ == start) expected("a name");
  return text_.substr(start, at_ - start);
}

bool Scanner::is_number() {
  const char c = peek();
  return is_digit(c) || (c == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]));
}

Number Scanner::number() {
  Number result;
  if (!is_number()) {
    expected("a number");
    return result;
  }
  result.is_negative = consume_here('-');
  const size_t start = at_;
  if (text_.substr(at_).starts_with("0x") && at_ + 2 < text_.size() && hex_digit(text_[at_ + 2]) >= 0) {
    result.is_hex = true;
    at_ += 2;
    while (hex_digit(peek_here()) >= 0) ++at_;
  } else {
    while (is_digit(peek_here())) ++at_;
    if (peek_here() == '.') {
      result.is_float = true;
      ++at_;
      while (is_digit(peek_here())) ++at_;
      if (peek_here() == 'e' || peek_here() == 'E') {
        size_t exponent = at_ + 1;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
        if (exponent < text_.size() && is_digit(text_[exponent])) {
          at_ = exponent;
          while (is_digit(peek_here())) ++at_;
        }
      }
    }
  }
  result.text = text_.substr(start, at_ - start);
  return result;
}

int64_t Scanner::integer() {
  skip_blanks();
  const size_t start = at_;
  const Number read = number();
  const auto value = read.is_float ? std::nullopt : read.as_int();
  if (ok() && !value) fail_at(start, ErrorCode::E602, "expected an integer of at most 64 bits");
  return value.value_or(0);
}

std::optional<int64_t> Scanner::digits_here() {
  const size_t start = at_;
  while (is_digit(peek_here())) ++at_;
  if (at_ == start) return std::nullopt;
  int64_t value = 0;
  if (std::from_chars(text_.data() + start, text_.data() + at_, value).ec != std::errc())
    fail_at(start, ErrorCode::E608, "a number of more than 63 bits");
  return value;
}

std::string_view Scanner::string_source() {
  skip_blanks();
  if (!consume_here('"')) {
    expected("a string");
    return {};
  }
  const size_t start = at_;
  while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) {
    fail_at(start - 1, ErrorCode::E602, "the string has no end");
    return {};
  }
  return text_.substr(start, at_++ - start);
}

std::string Scanner::string() { return unescape(string_source()); }

std::string_view Scanner::balanced() {
  skip_blanks();
  const size_t start = at_;
  int64_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      string_source();
    } else {
      ++at_;
      if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
      const bool is_arrow = c == '>' && at_ >= 2 && text_[at_ - 2] == '-';
      if (((c == '>' && !is_arrow) || c == ')' || c == ']' || c == '}') && --depth == 0)
        return text_.substr(start, at_ - start);
    }
    if (depth == 0) break;
  }
  if (ok()) fail_at(start, ErrorCode::E602, "nothing closes what opens here");
  return {};
}

std::string_view Scanner::rest_of_line() {
  const size_t start = at_;
  at_ = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(start, at_ - start);
}

}  // namespace fettle::stablehlo
