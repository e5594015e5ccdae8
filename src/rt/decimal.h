#pragma once
// Numbers as text, exactly and without a locale. For rt's own sources.

#include "rt/model_api.h"

namespace fettle::rt {

/// Enough for every text that print_number and print_integer write.
constexpr int32_t kMostNumberChars = 32;

/// As C's "%.8g", with NaN, INF and -INF, as ONNX Runtime has them. Returns the length.
int32_t print_number(double value, char* to);
int32_t print_integer(int64_t value, char* to);
int32_t print_integer(uint64_t value, char* to);

// Reading: white space may stand around a number, and nothing else. False where the text is none.

/// "3", "-1.5e-3", "inf", "NaN": the double next to it, the even one of two.
bool read_number(FettleString text, double* value);
/// Of 64 bits; a fraction is cut off. What is less than 0 stands for 2^64 more. False where it does not fit.
bool read_integer(FettleString text, bool is_signed, uint64_t* value);

}  // namespace fettle::rt
