#pragma once
// Programs and arguments that tests of several primitives share; included by tests only.

#include <string>

#include "base/check.h"
#include "schedule/schedule.h"

namespace fettle::testing {

/// T is internal: made by one nest, read by the next.
inline constexpr const char* kTwo = R"(
func two(A: f32[8, 6], C: f32[8, 6] output):
  alloc T: f32[8, 6]
  for i in 8:
    for j in 6:
      block T(vi: spatial[8] = i, vj: spatial[6] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
  for i in 8:
    for j in 6:
      block C(vi: spatial[8] = i, vj: spatial[6] = j):
        reads T[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = T[vi, vj] + 1.0
)";

/// The map that a text such as "(k, n) -> (n // 32, k, n % 32)" means.
inline IndexMap map_of(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}

}  // namespace fettle::testing
