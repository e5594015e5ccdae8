#pragma once
// Text → tokens, with the indentation made explicit.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle::text {

enum class TokenKind : uint8_t {
  kName,    // identifier
  kQuoted,  // `any name`
  kInt,     // digits, perhaps with a type suffix
  kFloat,
  kString,
  kSymbol,
  kNewline,  // the end of a statement's line
  kIndent,
  kDedent,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;    // of a number without its suffix, of a string without quotes and escapes
  std::string suffix;  // of a number: its type, or empty
  int line, column;    // from 1
};

/// Comments run from # to the end of the line. Inside brackets, ends of lines and indentation mean nothing. E101.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace fettle::text
