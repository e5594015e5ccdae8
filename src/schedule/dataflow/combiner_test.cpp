// A reduction by ordered_max is taken apart as any other, and drops NaN whatever it becomes.
#include "schedule/dataflow/combiner.h"

#include <cmath>

#include "schedule/primitives/fuse_reduction_epilogue.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRows = "for i in 4: for k in 8: C[i] ordered_max= A[i, k]";

// Rows of numbers, with NaN at the ends and in between, of NaN alone, of -inf and NaN: of 8, 32 in all.
std::vector<float> maxima_of_rows(const Func& func) {
  std::vector<float> a(32), c(4, NAN);
  for (size_t i = 0; i < 32; ++i) a[i] = static_cast<float>((i * 5) % 7) - 9.0f;
  a[4] = a[8] = a[11] = a[15] = a[26] = a[27] = NAN;
  for (size_t i = 16; i < 24; ++i) a[i] = NAN;
  for (const size_t i : {24, 25, 28, 29, 30, 31}) a[i] = -INFINITY;
  std::vector<BufferArg> args = {{a.data(), 128}, {c.data(), 16}};
  EXPECT_OK(interpret(func, args));
  return c;
}

TEST(OrderedMaximum, DropsNaNWhateverItBecomes) {
  const std::vector<float> expected = maxima_of_rows(schedule_from(kRows).func());
  EXPECT_EQ(expected, (std::vector<float>{-4, -5, -INFINITY, -INFINITY}));
  const auto expect_same = [&](const testing::TestSchedule& s) {
    EXPECT_OK(check_well_formed(s.func()));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_EQ(maxima_of_rows(s.func()), expected) << to_text(s.func());
  };
  for (const size_t part : {0, 1}) {
    auto s = schedule_from(kRows);
    const auto k = split(s, {s.loop("k"), {4, 2}});
    ASSERT_OK(k);
    ASSERT_OK(rfactor(s, {s.block("C"), (*k)[part], 0}));
    expect_same(s);
  }
  auto whole = schedule_from(kRows);
  ASSERT_OK(rfactor(whole, {whole.block("C"), whole.loop("k"), 1}));
  expect_same(whole);
  for (const std::vector<IntRef>& parts : {std::vector<IntRef>{2}, {3}, {4, 1}, {3, 1}}) {
    auto s = schedule_from(kRows);
    ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", parts}));
    expect_same(s);
  }
  auto pairs = schedule_from(kRows);
  ASSERT_OK(reformulate(pairs, {pairs.block("C"), "pairwise_reduction", {}}));
  expect_same(pairs);
}

// Terms that are maxima themselves are no NaN: each pair is one operation.
TEST(OrderedMaximum, PairsOfMaximaNeedNothingElse) {
  const auto count = [](const testing::TestSchedule& s) {
    const std::string text = to_text(s.func());
    int n = 0;
    for (size_t at = text.find("ordered_max("); at != std::string::npos; at = text.find("ordered_max(", at + 1)) ++n;
    return n;
  };
  auto s = schedule_from(kRows);
  ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", {4, 1}}));
  ASSERT_OK(reformulate(s, {s.block("C"), "pairwise_reduction", {}}));
  EXPECT_EQ(count(s), 3);  // of the parts, 4 → 2, 2 → 1
  EXPECT_EQ(maxima_of_rows(s.func()), maxima_of_rows(s.original));
  auto direct = schedule_from(kRows);
  ASSERT_OK(reformulate(direct, {direct.block("C"), "pairwise_reduction", {}}));
  EXPECT_EQ(count(direct), 4);  // of 8 → 4 two
}

TEST(OrderedMaximum, WithoutTheStateInItsPlaceItIsNoReduction) {
  auto s = schedule_from(R"(
func rows(A: f32[4, 8], C: f32[4] output):
  for i in 4:
    for k in 8:
      block C(vi: spatial[4] = i, vk: reduce[8] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = -inf
        C[vi] = ordered_max(C[vi], A[vi, vk])
)");
  EXPECT_ERROR(rfactor(s, {s.block("C"), s.loop("k"), 0}), E212);
}

TEST(OrderedMaximum, AnEpilogueIsFusedWhereItSaysTheSameOfNaN) {
  const auto with_epilogue = [](const std::string& epilogue) {
    return schedule_from(R"(
func f(A: f32[4, 8], B: f32[4], D: f32[4] output):
  alloc T: f32[4]
  for i in 4:
    for k in 8:
      block T(vi: spatial[4] = i, vk: reduce[8] = k):
        reads A[vi, vk]
        writes T[vi]
        init:
          T[vi] = -inf
        T[vi] = ordered_max(A[vi, vk], T[vi])
  for m in 4:
    block D(vm: spatial[4] = m):
      reads T[vm], B[vm]
      writes D[vm]
      D[vm] = )" + epilogue +
                         "\n");
  };
  const auto run = [](const Func& func) {
    std::vector<float> a(32, 2), b = {NAN, 1, 3, -INFINITY}, d(4);
    a[3] = a[31] = NAN;
    std::vector<BufferArg> args = {{a.data(), 128}, {b.data(), 16}, {d.data(), 16}};
    EXPECT_OK(interpret(func, args));
    EXPECT_TRUE(std::isnan(d[0]));
    d[0] = 0;
    return d;
  };
  auto s = with_epilogue("ordered_max(T[vm], B[vm])");
  ASSERT_OK(fuse_reduction_epilogue(s, {s.block("T"), s.block("D")}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_EQ(run(s.func()), run(s.original));
  auto swapped = with_epilogue("ordered_max(B[vm], T[vm])");
  EXPECT_ERROR(fuse_reduction_epilogue(swapped, {swapped.block("T"), swapped.block("D")}), E214);
}

}  // namespace
}  // namespace fettle
