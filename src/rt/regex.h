#pragma once
// Programs of regular expressions: what graph/regex.cpp makes of a pattern, and host functions run.
//
// A program is a list of integers: how many instructions there are; each as {kind, a, b}; then ranges of characters,
// two integers each. Instruction 0 begins. All that may be reached are followed at once, so time is linear in the text.

#include <stdint.h>

namespace fettle::rt {

enum RegexInstruction : int64_t {
  kRegexMatch,   // the text so far is matched
  kRegexClass,   // a character in one of b ranges from number a on, which ascend; goes on behind it
  kRegexJump,    // goes on at a
  kRegexSplit,   // goes on at a and at b
  kRegexAssert,  // goes on behind it where RegexPlace a holds
};

enum RegexPlace : int64_t {
  kTextBegin,
  kTextEnd,
  kLineBegin,
  kLineEnd,
  kWordBoundary,
  kNoWordBoundary,
};

constexpr int32_t kRegexWidth = 3;  // integers of an instruction

}  // namespace fettle::rt
