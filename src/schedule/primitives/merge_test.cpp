#include "schedule/primitives/merge.h"

#include "schedule/primitives/parallel.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// T is made by one nest and needed at `read` by the next.
std::string two_nests(const std::string& read, int rows = 8) {
  return R"(
func two(A: f32[8, 4], C: f32[8, 4] output):
  alloc T: f32[8, 4]
  for i in 8:
    for j in 4:
      block T(vi: spatial[8] = i, vj: spatial[4] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
  for k in )" +
         std::to_string(rows) +
         R"(:
    for l in 4:
      block C(vk: spatial[8] = k, vl: spatial[4] = l):
        reads )" +
         read + R"(
        writes C[vk, vl]
        C[vk, vl] = )" +
         read + " + 1.0\n";
}

TEST(Merge, JoinsTwoNestsAtBothLevels) {
  auto s = schedule_from(two_nests("T[vk, vl]"));
  auto joined = merge(s, {{s.loop("j"), s.loop("l")}});
  ASSERT_OK(joined);
  EXPECT_EQ(s.loop_var(*joined).value()->name, "j");
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Merge, JoinsTheOuterLoopsOnly) {
  auto s = schedule_from(two_nests("T[vk, 3 - vl]"));  // within a row the order matters
  EXPECT_ERROR(merge(s, {{s.loop("j"), s.loop("l")}}), E227);
  ASSERT_OK(merge(s, {{s.loop("i"), s.loop("k")}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Merge, ReductionsOfOneInput) {
  auto s = schedule_from("for i in 6: for k in 5: S[i] += A[i, k]\nfor x in 6: for y in 5: M[x] max= A[x, y]");
  ASSERT_OK(merge(s, {{s.loop("k"), s.loop("y")}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Merge, ThreeNests) {
  auto s = schedule_from("for i in 6: B[i] = A[i]\nfor j in 6: C[j] = A[5 - j]\nfor k in 6: D[k] = A[k] * 2.0");
  ASSERT_OK(merge(s, {{s.loop("i"), s.loop("j"), s.loop("k")}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Merge, E227NeedsOtherIterations) {
  auto s = schedule_from(two_nests("T[7 - vk, vl]"));
  EXPECT_ERROR(merge(s, {{s.loop("i"), s.loop("k")}}), E227);

  // The sum is complete only after all of k.
  auto sum = schedule_from(R"(
func sum(A: f32[6], B: f32[6] output):
  alloc S: f32[1]
  for k in 6:
    block S(vk: reduce[6] = k):
      reads A[vk]
      writes S[0]
      init:
        S[0] = 0.0
      S[0] = S[0] + A[vk]
  for i in 6:
    block B(vi: spatial[6] = i):
      reads S[0]
      writes B[vi]
      B[vi] = S[0]
)");
  EXPECT_ERROR(merge(sum, {{sum.loop("k"), sum.loop("i")}}), E227);

  // The second nest overwrites what the first one reads.
  auto overwrite = schedule_from(R"(
func overwrite(A: f32[6], B: f32[6] output):
  alloc T: f32[6]
  for h in 6:
    block T(vh: spatial[6] = h):
      reads A[vh]
      writes T[vh]
      T[vh] = A[vh]
  for i in 6:
    block B(vi: spatial[6] = i):
      reads T[5 - vi]
      writes B[vi]
      B[vi] = T[5 - vi]
  for j in 6:
    block U(vj: spatial[6] = j):
      writes T[vj]
      T[vj] = 0.0
)");
  EXPECT_ERROR(merge(overwrite, {{overwrite.loop("i"), overwrite.loop("j")}}), E227);
}

// A running maximum, whose step t another nest uses in its own step t.
TEST(Merge, AScanStaysInOrder) {
  const std::string text = R"(
func scale(A: f32[8, 4], B: f32[8, 4] output):
  alloc M: f32[8, 4]
  alloc S: f32[4]
  for t in 8:
    for j in 4:
      block M(vt: scan[8] = t, vj: spatial[4] = j):
        reads A[vt, vj], S[vj]
        writes M[vt, vj], S[vj]
        M[vt, vj] = max(A[vt, vj], select(vt == 0, 0.0, S[vj]))
        S[vj] = max(A[vt, vj], select(vt == 0, 0.0, S[vj]))
  for u in 8:
    for k in 4:
      block B(vu: spatial[8] = u, vk: spatial[4] = k):
        reads A[vu, vk], READ
        writes B[vu, vk]
        B[vu, vk] = A[vu, vk] - READ
)";
  const auto reading = [&](const std::string& element) {
    return schedule_from(testing::replaced(text, "READ", element));
  };
  auto s = reading("M[vu, vk]");
  ASSERT_OK(merge(s, {{s.loop("t"), s.loop("u")}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  auto last = reading("M[7, vk]");
  EXPECT_ERROR(merge(last, {{last.loop("t"), last.loop("u")}}), E227);
  auto final_state = reading("S[vk]");
  EXPECT_ERROR(merge(final_state, {{final_state.loop("t"), final_state.loop("u")}}), E227);
}

TEST(Merge, Errors) {
  auto s = schedule_from(two_nests("T[vk, vl]"));
  const LoopRef i = s.loop("i"), j = s.loop("j"), k = s.loop("k"), l = s.loop("l");
  EXPECT_ERROR(merge(s, {{i}}), E207);
  EXPECT_ERROR(merge(s, {{i, l}}), E207);
  EXPECT_ERROR(merge(s, {{k, i}}), E207);
  EXPECT_ERROR(merge(s, {{i, j}}), E207);
  auto shorter = schedule_from(two_nests("T[vk, vl]", 6));
  EXPECT_ERROR(merge(shorter, {{shorter.loop("i"), shorter.loop("k")}}), E207);
  auto threads = s;
  ASSERT_OK(parallel(threads, {i}));
  EXPECT_ERROR(merge(threads, {{i, k}}), E201);
  ASSERT_OK(split(s, {k, {2, 4}}));
  EXPECT_ERROR(merge(s, {{i, k}}), E206);
}

// Of two places where a block reads a buffer, one needs other iterations.
TEST(Merge, E227OneOfTwoRegions) {
  auto s = schedule_from(R"(
func gram(A: f32[4, 3], C: f32[4, 4] output):
  alloc B: f32[4, 3]
  for i in 4:
    for k in 3:
      block B(vi: spatial[4] = i, vk: spatial[3] = k):
        reads A[vi, vk]
        writes B[vi, vk]
        B[vi, vk] = A[vi, vk] + 1.0
  for i in 4:
    for j in 4:
      for k in 3:
        block C(vi: spatial[4] = i, vj: spatial[4] = j, vk: reduce[3] = k):
          reads B[vi, vk], B[vj, vk]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + B[vi, vk] * B[vj, vk]
)");
  const auto first = get_loops(s, {s.block("B")}), second = get_loops(s, {s.block("C")});
  EXPECT_ERROR(merge(s, {{(*first)[0], (*second)[0]}}), E227);
}

}  // namespace
}  // namespace fettle
