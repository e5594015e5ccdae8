#include "analysis/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Result<> verified(const std::string& text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  if (!func) return {};
  return verify(*func, *parse_target("x86-64-avx512"));
}

void expect_broken(const std::string& text, ErrorCode code, std::string_view part) {
  const Result<> result = verified(text);
  ASSERT_FALSE(result.has_value()) << text;
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().to_string();
}

void expect_fine(const std::string& text) {
  const Result<> result = verified(text);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().to_string());
}

// A register tile with a balanced tail of rows and a masked one of columns.
constexpr const char* kTiled = R"(func matmul(A: f32[197, 64], B: f32[64, 100] constant, C: f32[197, 100] output):
  alloc acc: f32[197, 100] @register
  for i in 15 parallel tail(balance):
    for j in 4 tail(mask):
      for k in 64:
        for ii in 14 unrolled:
          for jj in 32 vectorized:
            block acc(vi: spatial[197] = i * 13 + min(i, 2) + ii, vj: spatial[100] = j * 32 + jj, vk: reduce[64] = k) where ii < 13 + select(i < 2, 1, 0) && j * 32 + jj < 100:
              reads A[vi, vk], B[vk, vj]
              writes acc[vi, vj]
              init:
                acc[vi, vj] = 0.0
              acc[vi, vj] = acc[vi, vj] + A[vi, vk] * B[vk, vj]
      for x in 14 unrolled:
        for y in 32 vectorized:
          block C(wi: spatial[197] = i * 13 + min(i, 2) + x, wj: spatial[100] = j * 32 + y) where x < 13 + select(i < 2, 1, 0) && j * 32 + y < 100:
            reads acc[wi, wj]
            writes C[wi, wj]
            C[wi, wj] = acc[wi, wj]
)";

TEST(Verify, AcceptsATiledMatmul) { expect_fine(kTiled); }

TEST(Verify, BindingsInsideTheirDomains) {
  expect_broken(replaced(kTiled, " && j * 32 + jj < 100", ""), ErrorCode::E230, "iterator vj");
  expect_broken(replaced(kTiled, "for i in 15 parallel", "for i in 16 parallel"), ErrorCode::E230, "iterator vi");
}

TEST(Verify, OutputsAreReached) {
  expect_broken(R"(func f(A: f32[64], B: f32[64] output):
  for i in 63:
    block B(v: spatial[64] = i):
      reads A[v]
      writes B[v]
      B[v] = A[v]
)",
                ErrorCode::E230, "does not reach");
}

TEST(Verify, AccessesInsideTheirBuffers) {
  const std::string text = R"(func f(A: f32[64], B: f32[64] output):
  for i in 64:
    block B(v: spatial[64] = i):
      reads A[v]
      writes B[v]
      B[v] = select(1 <= v && v < 64, A[v - 1], 0.0)
)";
  expect_fine(text);
  expect_broken(replaced(text, "1 <= v", "0 <= v"), ErrorCode::E230, "index v - 1");
  expect_broken(replaced(text, "A[v - 1]", "A[v + 1]"), ErrorCode::E230, "index v + 1");
}

TEST(Verify, Registers) {
  expect_broken(replaced(kTiled, "ii in 14 unrolled", "ii in 14"), ErrorCode::E230, "neither unrolled");
  std::string big = kTiled;
  big = replaced(big, "for j in 4 tail", "for j in 2 tail");
  big = replaced(big, "jj in 32", "jj in 64");
  big = replaced(big, "y in 32", "y in 64");
  for (int n = 0; n < 4; ++n) big = replaced(big, "j * 32", "j * 64");
  expect_broken(big, ErrorCode::E230, "take 56 vectors");
}

// A sum that clears itself goes on through k, so that all rows are alive there.
TEST(Verify, RegistersOfASumInPlace) {
  expect_broken(R"(
func f(A: f32[n, 8], B: f32[n] output, n: i64 in 1..64):
  alloc T: f32[n] @register
  for k in 8:
    for i in n:
      block T(vi: spatial[n] = i, vk: reduce[8] = k):
        reads A[vi, vk]
        writes T[vi]
        init:
          T[vi] = 0.0
        T[vi] = T[vi] + A[vi, vk]
      block B(vi: spatial[n] = i) where k == 7:
        reads T[vi]
        writes B[vi]
        B[vi] = T[vi]
)",
                ErrorCode::E230, "neither unrolled nor vectorized");
}

// Registers are addressed by constants: a tile has its whole size, even where it goes beyond the buffer.
TEST(Verify, RegistersHoldWholeTiles) {
  const auto tiles = [](int width) {
    return fmt::format(R"(
func f(A: f32[7, 8], B: f32[7, 8] output):
  alloc T: f32[7, 8] @register
  for o in 1:
    for i in 7 unrolled:
      for j_0 in 1 unrolled:
        for j_1 in {0} unrolled:
          block T(vi: spatial[7] = i, vj: spatial[8] = j_0 * {0} + j_1) where j_1 < 8:
            reads A[vi, vj]
            writes T[vi, vj]
            T[vi, vj] = A[vi, vj]
    for i in 7 unrolled:
      for j_0 in 1 unrolled:
        for j_1 in {0} unrolled:
          block B(vi: spatial[7] = i, vj: spatial[8] = j_0 * {0} + j_1) where j_1 < 8:
            reads T[vi, vj]
            writes B[vi, vj]
            B[vi, vj] = T[vi, vj]
)",
                       width);
  };
  expect_fine(tiles(8));
  expect_fine(tiles(64));
  expect_broken(tiles(96), ErrorCode::E230, "T take 42 vectors");
}

// Each step needs the one before, so that all of T is alive: nothing that registers could hold.
TEST(Verify, RegistersOfAScan) {
  const std::string text = R"(func scan(A: f32[n], n: i64 in 1..64):
  alloc T: f32[n] @register
  for i in n:
    block T(vi: scan[n] = i):
      reads T[max(vi - 1, 0)], A[vi]
      writes T[vi]
      T[vi] = select(0 < vi, T[max(vi - 1, 0)], 0.0) + A[vi]
)";
  expect_broken(text, ErrorCode::E230, "neither unrolled");
  expect_fine(replaced(text, " @register", ""));
}

TEST(Verify, ScopesAndExtents) {
  expect_broken(replaced(kTiled, "@register", "@nowhere"), ErrorCode::E219, "nowhere");
  const std::string text = R"(func f(A: f32[n], B: f32[n] output, n: i64 in 1..64):
  for i in n vectorized:
    block B(v: spatial[n] = i):
      reads A[v]
      writes B[v]
      B[v] = A[v]
)";
  expect_broken(text, ErrorCode::E221, "not constant");
  expect_fine(replaced(text, " vectorized", " parallel"));
}

TEST(Verify, Races) {
  std::string text = replaced(kTiled, "for k in 64:", "for k in 64 parallel:");
  expect_broken(text, ErrorCode::E210, "not spatial");
}

constexpr const char* kPadded =
    R"(func f(A: f32[1, 60, 8], W: f32[60, 60], O: f32[1, 4, 8, 16] layout(n: 1, c: 60, h: 8 -> n, c // 16, h, c % 16) output):
  alloc P: f32[1, 4, 8, 16] layout(n: 1, c: 60, h: 8 -> n, c // 16, h, c % 16)
  for c in 4:
    for h in 8:
      for l in 16:
        block P(vc: spatial[4] = c, vh: spatial[8] = h, vl: spatial[16] = l):
          reads A[0, min(vc * 16 + vl, 59), vh]
          writes P[0, vc, vh, vl]
          P[0, vc, vh, vl] = select(vc * 16 + vl < 60, A[0, vc * 16 + vl, vh], 0.0)
  for c_1 in 4:
    for h_1 in 8:
      for l_1 in 16:
        block O(wc: spatial[4] = c_1, wh: spatial[8] = h_1, wl: spatial[16] = l_1):
          reads P[0, wc, wh, wl]
          writes O[0, wc, wh, wl]
          O[0, wc, wh, wl] = max(P[0, wc, wh, wl], 0.0) * 2.0
)";

TEST(Verify, PadLanesStayZero) {
  expect_fine(kPadded);
  expect_broken(replaced(kPadded, ", 0.0) * 2.0", ", 0.0) + 2.0"), ErrorCode::E230, "pad lanes");
  expect_broken(replaced(kPadded, "A[0, vc * 16 + vl, vh], 0.0)", "A[0, vc * 16 + vl, vh], 1.0)"), ErrorCode::E230,
                "pad lanes");
  expect_broken(
      replaced(replaced(kPadded, "for c_1 in 4", "for c_1 in 60"),
               "block O(wc: spatial[4] = c_1, wh: spatial[8] = h_1, wl: spatial[16] = l_1):\n          reads "
               "P[0, wc, wh, wl]\n          writes O[0, wc, wh, wl]\n          O[0, wc, wh, wl] = max(P[0, wc, "
               "wh, wl], 0.0) * 2.0",
               "block O(wc: spatial[60] = c_1, wh: spatial[8] = h_1):\n          reads P[0, wc // 16, wh, wc "
               "% 16]\n          writes O[0, wc // 16, wh, wc % 16]\n          O[0, wc // 16, wh, wc % 16] = "
               "P[0, wc // 16, wh, wc % 16]"),
      ErrorCode::E230, "no block writes the pad lanes of O");
}

// A scatter: its steps follow one another, rows of the batch may run at once, and places are inside where it writes.
constexpr const char* kScatter = R"(func scatter(I: i64[4, 20], U: f32[4, 20, 16], Y: f32[4, 9, 16] output):
  for b in 4 parallel:
    for u in 20:
      for c in 16 vectorized:
        block Y(vb: spatial[4] = b, vu: scan[20] = u, vc: spatial[16] = c):
          reads I[vb, vu], Y[vb, 0 +: 9, vc], U[vb, vu, vc]
          writes Y[vb, 0 +: 9, vc]
          let place = I[vb, vu]
          if 0 <= place && place < 9:
            Y[vb, place, vc] = Y[vb, place, vc] + U[vb, vu, vc]
)";

TEST(Verify, ScattersKeepTheirOrder) {
  expect_fine(kScatter);
  expect_broken(replaced(kScatter, "for u in 20", "for u in 20 parallel"), ErrorCode::E210, "not spatial");
  // The same element from several iterations, whatever is said of the iterator.
  expect_broken(replaced(replaced(kScatter, "for u in 20", "for u in 20 parallel"), "vu: scan[20]", "vu: spatial[20]"),
                ErrorCode::E210, "several iterations");
  expect_broken(replaced(kScatter, "place < 9", "place < 10"), ErrorCode::E230, "may be outside");
  expect_broken(replaced(kScatter, "0 <= place && ", ""), ErrorCode::E230, "may be outside");
}

}  // namespace
}  // namespace fettle
