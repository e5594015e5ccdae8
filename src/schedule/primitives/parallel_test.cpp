#include "schedule/primitives/parallel.h"

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

const std::string kRowSum = testing::row_sum_program(6, 8);

TEST(Parallel, SpatialLoop) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_EQ(s.loop(s.loop("i"))->as<ForNode>()->loop_kind, ForKind::kParallel);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Parallel, PartOfASplitLoop) {
  auto s = schedule_from(kRowSum);
  auto loops = split(s, {s.loop("i"), {kInfer, 4}, Tail::kMask});
  ASSERT_OK(loops);
  ASSERT_OK(parallel(s, {(*loops)[1]}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Parallel, E201Twice) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(parallel(s, {s.loop("i")}), E201);
}

TEST(Parallel, E206ConsumedLoop) {
  auto s = schedule_from(kRowSum);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 3}}));
  EXPECT_ERROR(parallel(s, {i}), E206);
}

TEST(Parallel, E210Reduction) {
  auto s = schedule_from(kRowSum);
  const auto refused = parallel(s, {s.loop("k")});
  EXPECT_ERROR(refused, E210);
  EXPECT_NE(explain(refused.error()).find("^^^"), std::string::npos);  // the place is marked in the program
}

TEST(Parallel, E210NeighboursOfAnotherBlock) {
  auto s = schedule_from(R"(
func shifted(A: f32[9], B: f32[9] output, C: f32[8] output):
  for t in 8:
    block B(vt: spatial[9] = t):
      reads A[vt]
      writes B[vt]
      B[vt] = A[vt]
    block C(vt: spatial[8] = t):
      reads B[max(vt - 1, 0)]
      writes C[vt]
      C[vt] = B[max(vt - 1, 0)]
)");
  EXPECT_ERROR(parallel(s, {s.loop("t")}), E210);
}

// No iterator is bound to c, but c tells which of j's iterations run: the last of them counts.
// Each element is updated once, though a row's length is another loop's.
TEST(Parallel, RowsOfATriangle) {
  auto s = schedule_from(R"(
func scale(X: f32[8, 8], A: f32[8, 8] output):
  for a in 8:
    for b in 8:
      block copy(va: spatial[8] = a, vb: spatial[8] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for i in 8:
    for j in i + 1:
      block A(vi: spatial[8] = i, vj: spatial[8] = j):
        reads A[vi, vj]
        writes A[vi, vj]
        A[vi, vj] = A[vi, vj] * 2.0
)");
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_SAME_RESULT(s);
}

TEST(Parallel, E210LoopThatOnlyBoundsAnOrder) {
  for (const char* bounds : {"for j in c * 3 +: 3:\n        block L(vi: scan[4] = i, vj: scan[6] = j)",
                             "for j in 6:\n        block L(vi: scan[4] = i, vj: scan[6] = j) where j // 3 == c"}) {
    auto s = schedule_from(fmt::format(R"(
func last(A: f32[4, 6], B: f32[4] output):
  for c in 2:
    for i in 4:
      {}:
          reads A[vi, vj]
          writes B[vi]
          B[vi] = A[vi, vj]
)",
                                       bounds));
    EXPECT_ERROR(parallel(s, {s.loop("c")}), E210);
    EXPECT_ERROR(parallel(s, {s.loop("j")}), E210);
    ASSERT_OK(parallel(s, {s.loop("i")}));
    EXPECT_SAME_RESULT(s);
  }
}

}  // namespace
}  // namespace fettle
