#pragma once
// A place in text, and what stands there: the words and signs that MLIR's text is made of.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle::stablehlo {

/// A number as it is written. Hexadecimal ones are bits.
struct Number {
  std::string_view text;  // without a sign before it
  bool is_negative = false, is_float = false, is_hex = false;

  double as_double() const;
  /// Nothing where it takes more than 64 bits. A negative one is the two's complement.
  std::optional<int64_t> as_int() const;
};

/// Reads from the left to the right. The first error is kept, and ends the text: what is read after it is empty.
class Scanner {
 public:
  Scanner(std::string_view text, std::string label) : text_(text), label_(std::move(label)) {}

  bool ok() const { return !error_; }
  const Diagnostic& error() const { return *error_; }
  /// Keeps the error, unless there is one.
  void fail(Diagnostic error);
  /// E602 with line, column and what stands there: "expected …".
  void expected(std::string_view what);
  void fail_at(size_t position, ErrorCode code, std::string message);

  size_t position() const { return at_; }
  /// A position before which nothing is but what was read.
  void seek(size_t position);
  std::string_view text() const { return text_; }
  int line_of(size_t position) const;
  /// "line 12, column 3"
  std::string place_of(size_t position) const;

  /// Past blanks and comments.
  void skip_blanks();
  bool at_end();
  /// The next character that is no blank; 0 at the end.
  char peek();
  bool starts_with(std::string_view sign);
  /// A sign ("->"), or a word that no letter follows.
  bool consume(std::string_view token);
  void expect(std::string_view token);
  /// The same, where blanks before it would matter ("%0#1", "2x3").
  bool consume_here(char c);
  char peek_here() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// [A-Za-z_][A-Za-z0-9_$.]*; empty where there is none.
  std::string_view word();
  /// What follows "%", "@", "#", "!" or "^": digits, or letters, digits and "$._-".
  std::string_view suffix();
  bool is_number();
  Number number();
  int64_t integer();
  /// Digits without a sign, of an extent; nothing where there are none.
  std::optional<int64_t> digits_here();
  /// "…" with escapes.
  std::string string();
  std::string_view string_source();  // between the quotes, escapes as they are
  /// From an opening "<", "(", "[" or "{" to the one that closes it, all that is between included.
  std::string_view balanced();
  /// To the end of the line.
  std::string_view rest_of_line();

  /// open item, item, … close: calls item() for each. Nothing is fine.
  template <class F>
  void list(std::string_view open, std::string_view close, F item) {
    expect(open);
    if (consume(close)) return;
    do item();
    while (ok() && consume(","));
    expect(close);
  }

 private:
  std::string_view text_;
  std::string label_;
  size_t at_ = 0;
  std::optional<Diagnostic> error_;
  // Lines are counted from where the last one was.
  struct Counted {
    size_t position = 0;
    int line = 1;
  };
  mutable Counted counted_ = {};
};

/// \n, \t, \", \\ and \xx of two hexadecimal digits.
std::string unescape(std::string_view source);
/// 0 … 15, or -1.
int hex_digit(char c);

}  // namespace fettle::stablehlo
