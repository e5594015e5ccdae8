#pragma once
// Programs and arguments that tests of several primitives share; included by tests only.

#include <string>

#include "base/check.h"
#include "schedule/schedule.h"

namespace fettle::testing {

/// The text with `to` wherever it says `from`, which it must.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  FETTLE_CHECK_MSG(at != std::string::npos, "no " + from + " in\n" + text);
  for (; at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return text;
}

// --- one block ----------------------------------------------------------------------------------------------------

/// B = A, of an extent that is known only when it runs.
inline constexpr const char* kSymbolicCopy = R"(
func copy(A: f32[n], B: f32[n] output, n: i64 in 1..1000):
  for i in n:
    block B(vi: spatial[n] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
)";

/// Half of B is written.
inline constexpr const char* kHalf = R"(
func half(A: f32[8], B: f32[8] output):
  for i in 4:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
)";

/// Each i writes three elements, two of which the next one writes again.
inline constexpr const char* kWindow = R"(
func window(A: f32[8], B: f32[8] output):
  for i in 4:
    for r in 3:
      block B(vi: spatial[8] = i + r):
        reads A[vi]
        writes B[vi]
        B[vi] = A[vi]
)";

/// The inner loop ends where the outer one stands.
inline constexpr const char* kTriangle = R"(
func triangle(A: f32[5, 5], B: f32[5, 5] output):
  for i in 5:
    for j in i + 1:
      block B(vi: spatial[5] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj]
)";

/// A is read only where it has elements.
inline constexpr const char* kGuarded = R"(
func pad(A: f32[4], B: f32[6] output):
  for i in 6:
    block B(vi: spatial[6] = i):
      reads A[vi - 1]
      writes B[vi]
      B[vi] = select(vi < 1, 0.0, select(vi < 5, A[vi - 1], 0.0))
)";

/// A running sum along t, of which each step reads column `read` of the one before.
inline std::string running_sum(const std::string& read) {
  return replaced(R"(
func sum(A: f32[8, 4], B: f32[8, 4] output):
  for t in 8:
    for j in 4:
      block B(vt: scan[8] = t, vj: spatial[4] = j):
        reads A[vt, vj], B[vt - 1, READ]
        writes B[vt, vj]
        B[vt, vj] = A[vt, vj] + select(vt < 1, 0.0, B[vt - 1, READ])
)",
                  "READ", read);
}

// --- one reduction ------------------------------------------------------------------------------------------------

inline std::string row_sum_program(int64_t rows, int64_t terms) {
  const std::string text = R"(
func row_sum(A: f32[ROWS, TERMS], B: f32[ROWS] output):
  for i in ROWS:
    for k in TERMS:
      block B(vi: spatial[ROWS] = i, vk: reduce[TERMS] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)";
  return replaced(replaced(text, "ROWS", std::to_string(rows)), "TERMS", std::to_string(terms));
}

/// Row sums that begin with D, which the init alone reads.
inline constexpr const char* kBiased = R"(
func biased(A: f32[4, 3], D: f32[4], B: f32[4] output):
  for i in 4:
    for k in 3:
      block B(vi: spatial[4] = i, vk: reduce[3] = k):
        reads A[vi, vk], D[vi]
        writes B[vi]
        init:
          B[vi] = D[vi]
        B[vi] = B[vi] + A[vi, vk]
)";

/// C[vi // 3, vi % 3] = sum of A[vi * 2 + vk]
inline constexpr const char* kFoldedSum = R"(
func sum(A: f32[14], C: f32[2, 3] output):
  for i in 6:
    for k in 4:
      block C(vi: spatial[6] = i, vk: reduce[4] = k):
        reads A[vi * 2 + vk]
        writes C[vi // 3, vi % 3]
        init:
          C[vi // 3, vi % 3] = 0.0
        C[vi // 3, vi % 3] = C[vi // 3, vi % 3] + A[vi * 2 + vk]
)";

/// C[i, j] = sum_k A[i, k] * B[k, j]
inline std::string matmul_program(int64_t m, int64_t n, int64_t k) {
  const std::string text = R"(
func matmul(A: f32[M, K], B: f32[K, N], C: f32[M, N] output):
  for i in M:
    for j in N:
      for k in K:
        block C(vi: spatial[M] = i, vj: spatial[N] = j, vk: reduce[K] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";
  return replaced(replaced(replaced(text, "M", std::to_string(m)), "N", std::to_string(n)), "K", std::to_string(k));
}

/// Of the layouts NHWC and HWIO, without N, with a stride of 2 along w.
inline constexpr const char* kStridedConv =
    "for h in 5: for w in 4: for o in 3: for r in 3: for q in 2: for c in 2:"
    " C[h, w, o] += A[h + r, w * 2 + q, c] * F[r, q, c, o]";

// --- several blocks -----------------------------------------------------------------------------------------------

/// B is read by C; D reads both.
inline constexpr const char* kDiamond =
    "for i in 8: B[i] = A[i]\nfor j in 8: C[j] = B[j]\nfor k in 8: D[k] = B[k] * C[k]";

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

/// T is internal: made and read in one loop.
inline constexpr const char* kFused = R"(
func fused(A: f32[8], B: f32[8] output):
  alloc T: f32[8]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] * 2.0
    block B(vi: spatial[8] = i):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi] + 1.0
)";

/// Two outputs in one loop.
inline constexpr const char* kTwoInOneLoop = R"(
func two(A: f32[8], B: f32[8] output, C: f32[8] output):
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
    block C(vi: spatial[8] = i):
      reads A[vi]
      writes C[vi]
      C[vi] = A[vi]
)";

/// Two outputs by nests of their own: a column of A and, after it, sums of its rows.
inline constexpr const char* kColumnAndRowSum = R"(
func two(A: f32[4, 3], B: f32[4] output, C: f32[4] output):
  for i in 4:
    block C(vi: spatial[4] = i):
      reads A[vi, 0]
      writes C[vi]
      C[vi] = A[vi, 0]
  for y in 4:
    for k in 3:
      block B(vi: spatial[4] = y, vk: reduce[3] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)";

/// B reads and writes what another block has filled.
inline constexpr const char* kUpdate = R"(
func update(A: f32[4], B: f32[4] output):
  for i in 4:
    block fill(vi: spatial[4] = i):
      writes B[vi]
      B[vi] = 1.0
  for j in 4:
    block B(vi: spatial[4] = j):
      reads A[vi], B[vi]
      writes B[vi]
      B[vi] = B[vi] + A[vi]
)";

/// B is read by C and, after `again` has overwritten it, by D.
inline constexpr const char* kOverwritten = R"(
func f(A: f32[5], C: f32[5] output, D: f32[5] output, B: f32[5] output):
  for i in 5:
    block B(vi: spatial[5] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for i in 5:
    block C(vi: spatial[5] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi] + 1.0
  for i in 5:
    block again(vi: spatial[5] = i):
      reads B[vi]
      writes B[vi]
      B[vi] = B[vi] * 2.0
  for i in 5:
    block D(vi: spatial[5] = i):
      reads B[vi]
      writes D[vi]
      D[vi] = B[vi] + 3.0
)";

// --- arguments ----------------------------------------------------------------------------------------------------

/// The map that a text such as "(k, n) -> (n // 32, k, n % 32)" means.
inline IndexMap map_of(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}

}  // namespace fettle::testing
