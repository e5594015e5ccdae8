#include "schedule/primitives/reschedule.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/test_programs_affine.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

IndexMap map_of(const std::string& text) {
  IndexMap map;
  EXPECT_TRUE(from_arg(ArgValue{text}, map)) << text;
  return map;
}

// A time loop around a stencil that is updated in place, on a copy of the input.
std::string seidel(int steps, int n) {
  return fmt::format(R"(func seidel(X: f32[{0}, {0}], A: f32[{0}, {0}] output):
  for a in {0}:
    for b in {0}:
      block copy(va: spatial[{0}] = a, vb: spatial[{0}] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for t in {1}:
    for i in {2}:
      for j in {2}:
        block S(vt: scan[{1}] = t, vi: scan[{2}] = i, vj: scan[{2}] = j):
          reads A[vi +: 3, vj +: 3]
          writes A[vi + 1, vj + 1]
          A[vi + 1, vj + 1] = max(A[vi, vj + 1], A[vi + 1, vj]) + max(A[vi + 2, vj + 1], A[vi + 1, vj + 2]) - A[vi + 1, vj + 1]
)",
                     n, steps, n - 2);
}

void expect_verified(const TestSchedule& s) {
  const auto target = parse_target("host");
  EXPECT_OK(verify(s.func(), *target));
}

TEST(Reschedule, InterchangesLoopsOfATriangle) {
  auto s = schedule_from(triangular(6));
  const BlockRef update = s.block("S0"), quotient = s.block("S1");
  ASSERT_OK(reschedule(
      s, {{update, quotient}, {map_of("(i, j, k) -> (j, 0, i, k)"), map_of("(i, j) -> (j, 1, i)")}, {}, false}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  expect_verified(s);
}

TEST(Reschedule, TilesATriangle) {
  auto s = schedule_from(triangular(13));
  const BlockRef update = s.block("S0"), quotient = s.block("S1");
  ASSERT_OK(reschedule(
      s, {{update, quotient}, {map_of("(i, j, k) -> (i, j, k)"), map_of("(i, j) -> (i, j, j)")}, {4, 4, 4}, true}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  expect_verified(s);
}

TEST(Reschedule, SkewsAndTilesTime) {
  auto s = schedule_from(seidel(7, 14));
  const BlockRef block = s.block("S");
  EXPECT_ERROR(reschedule(s, {{block}, {map_of("(t, i, j) -> (t, i, j)")}, {2, 4, 4}, false}), E227);
  EXPECT_ERROR(reschedule(s, {{block}, {map_of("(t, i, j) -> (i, t, j)")}, {}, false}), E227);
  ASSERT_OK(reschedule(s, {{block}, {map_of("(t, i, j) -> (t, t + i, 2 * t + i + j)")}, {2, 4, 4}, true}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  expect_verified(s);
}

TEST(Reschedule, MakesAWavefrontThatThreadsShare) {
  auto s = schedule_from(seidel(5, 9));
  const auto loops = reschedule(s, {{s.block("S")}, {map_of("(t, i, j) -> (4 * t + 2 * i + j, t, i)")}, {}, false});
  ASSERT_OK(loops);
  EXPECT_ERROR(parallel(s, {(*loops)[0]}), E210);
  ASSERT_OK(parallel(s, {(*loops)[1]}));
  EXPECT_SAME_RESULT(s);
  expect_verified(s);
}

TEST(Reschedule, JoinsNestsWithAShift) {
  auto s = schedule_from(R"(func f(A: f32[12], B: f32[12] output, C: f32[10] output):
  for i in 12:
    block B(vi: spatial[12] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + 1.0
  for j in 10:
    block C(vj: spatial[10] = j):
      reads B[vj +: 3]
      writes C[vj]
      C[vj] = B[vj] + B[vj + 2]
)");
  const BlockRef b = s.block("B"), c = s.block("C");
  EXPECT_ERROR(reschedule(s, {{b, c}, {map_of("(i) -> (i, 0)"), map_of("(j) -> (j + 1, 1)")}, {}, false}), E227);
  ASSERT_OK(reschedule(s, {{b, c}, {map_of("(i) -> (i, 0)"), map_of("(j) -> (j + 2, 1)")}, {}, false}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  expect_verified(s);
}

TEST(Reschedule, KeepsTheFirstStepOfAReduction) {
  auto s = schedule_from("A: f32[5, 7]\nfor i in 5:\n  for k in 7: B[i] += A[i, k]");
  const BlockRef block = s.block("B");
  EXPECT_ERROR(reschedule(s, {{block}, {map_of("(i, k) -> (0 - k, i)")}, {}, false}), E227);
  ASSERT_OK(reschedule(s, {{block}, {map_of("(i, k) -> (k, 0 - i)")}, {2, 2}, false}));
  EXPECT_SAME_RESULT(s);
}

TEST(Reschedule, StaysInsideOfLoopsThatItIsNotTold) {
  auto s = schedule_from(seidel(3, 8));
  const auto loops = reschedule(s, {{s.block("S")}, {map_of("(i, j) -> (i + j, j)")}, {}, false});
  ASSERT_OK(loops);
  ASSERT_OK(parallel(s, {(*loops)[1]}));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

// Rows in two halves: without it, one loop has both.
TEST(Reschedule, ValuesApartHaveLoopsOfTheirOwn) {
  const IndexMap halves = map_of("(a, b) -> (min(a // 3, 1), b, a)");
  for (const std::vector<int64_t>& apart : {std::vector<int64_t>{}, std::vector<int64_t>{0}}) {
    auto s = schedule_from(triangular(6));
    ASSERT_OK(reschedule(s, {{s.block("copy")}, {halves}, {}, false, apart}));
    const auto blocks = blocks_of(s.func().root());
    EXPECT_EQ(std::ranges::count_if(blocks, [](const BlockNode* b) { return b->name.starts_with("copy"); }),
              apart.empty() ? 1 : 2)
        << to_text(s.func());
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    expect_verified(s);
  }
  auto s = schedule_from(triangular(6));
  ASSERT_OK(reschedule(s, {{s.block("copy")}, {map_of("(a, b) -> (b, min(a // 3, 1), a)")}, {2}, false, {1}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reschedule, RefusesWhatDoesNotFit) {
  auto s = schedule_from(triangular(6));
  const BlockRef copy = s.block("copy"), update = s.block("S0"), quotient = s.block("S1");
  const IndexMap two = map_of("(i, j) -> (i, j)"), three = map_of("(i, j, k) -> (i, j, k)");
  EXPECT_ERROR(reschedule(s, {{}, {}, {}, false}), E241);
  EXPECT_ERROR(reschedule(s, {{update}, {}, {}, false}), E241);
  EXPECT_ERROR(reschedule(s, {{update}, {three}, {}, false}), E207);
  EXPECT_ERROR(reschedule(s, {{copy, quotient}, {two, two}, {}, false}), E207);
  EXPECT_ERROR(reschedule(s, {{copy}, {map_of("(a, b) -> (a * b, b)")}, {}, false}), E209);
  EXPECT_ERROR(reschedule(s, {{copy}, {two}, {0}, false}), E202);
  EXPECT_ERROR(reschedule(s, {{copy}, {two}, {2, 2, 2}, false}), E241);
  EXPECT_ERROR(reschedule(s, {{copy}, {two}, {}, false, {2}}), E241);
  EXPECT_ERROR(reschedule(s, {{copy}, {two}, {2}, false, {0}}), E241);
  EXPECT_ERROR(reschedule(s, {{copy}, {map_of("(a, b, c) -> (a, b, c)")}, {}, false}), E207);
  ASSERT_OK(parallel(s, {s.loop("a")}));
  EXPECT_ERROR(reschedule(s, {{copy}, {two}, {}, false}), E201);
}

TEST(Reorder, GoesByWhatScansTouch) {
  auto s = schedule_from(seidel(3, 6));
  const LoopRef t = s.loop("t"), i = s.loop("i"), j = s.loop("j");
  EXPECT_ERROR(reorder(s, {{i, t}}), E210);
  EXPECT_ERROR(parallel(s, {i}), E210);
  ASSERT_OK(reorder(s, {{j, i}}));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
