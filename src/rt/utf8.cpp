#include "rt/utf8.h"

namespace fettle::rt {
namespace {

/// Every `step`th character from `first` to `last` becomes the one `difference` further on.
struct CaseRange {
  int32_t first, last, step, difference;
};

#include "rt/case_table.inc"

template <int32_t N>
int32_t mapped(const CaseRange (&ranges)[N], int32_t code) {
  int32_t low = 0, high = N;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (ranges[middle].last < code)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == N || code < ranges[low].first || (code - ranges[low].first) % ranges[low].step != 0) return code;
  return code + ranges[low].difference;
}

}  // namespace

int32_t to_upper(int32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  return mapped(kToUpperRanges, code);
}
int32_t to_lower(int32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return mapped(kToLowerRanges, code);
}

}  // namespace fettle::rt
