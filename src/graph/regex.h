#pragma once
// Regular expressions in RE2's syntax, compiled to a program that is matched in time linear in the text (rt/regex.h).

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// The program of a pattern. Of RE2's syntax: characters, classes, groups, alternation, repetition, anchors, word
/// boundaries, the flags i, m, s and U, and escapes. E606 what is wrong with the pattern, or not supported, and where.
Result<std::vector<int64_t>> compile_regex(std::string_view pattern);

}  // namespace fettle
