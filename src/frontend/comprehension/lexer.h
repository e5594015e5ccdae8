#pragma once
// Text of comprehensions → tokens.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/comprehension/syntax.h"

namespace fettle::comprehension {

enum class TokenKind : uint8_t { kName, kInteger, kReal, kSymbol, kEnd };

struct Token {
  TokenKind kind;
  std::string text;  // of a name, a number, a symbol; kEnd: empty
  Place place;
  bool touches_next = false;  // nothing stands between it and the next one
};

/// "3:14": how the places of problems are written in Diagnostic::where.
std::string to_string(Place place);

/// Ends with a kEnd. Comments begin with # and end with the line. E611 a character that nothing begins with, or a
/// number that is none.
Result<std::vector<Token>> tokenize(std::string_view text);

}  // namespace fettle::comprehension
