#include "schedule/primitives/pad_einsum.h"

#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/tile.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::map_of;
using testing::schedule_from;

constexpr const char* kMatmul = "for i in 5: for j in 8: for k in 6: C[i, j] += A[i, k] * B[k, j]";

TEST(PadEinsum, ThenAnIntrinsicFits) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  auto copies = pad_einsum(s, {c, {2, 4, 4}});
  ASSERT_OK(copies);
  EXPECT_EQ(copies->size(), 3u);  // A, B and C: k is in both inputs
  EXPECT_GOLDEN(s.func());
  auto of_c = get_loops(s, {c});
  auto loops = tile(s, {{(*of_c)[0], (*of_c)[1], (*of_c)[2]}, {2, 4, 4}});
  ASSERT_OK(loops);
  ASSERT_OK(decompose_reduction(s, {c, (*loops)[2]}));
  ASSERT_OK(tensorize(s, {(*loops)[3], "scalar_matmul_f32"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(PadEinsum, NothingToDo) {
  auto s = schedule_from(kMatmul);
  const Func before = s.func();
  auto copies = pad_einsum(s, {s.block("C"), {5, 4, 3}});
  ASSERT_OK(copies);
  EXPECT_TRUE(copies->empty());
  EXPECT_EQ(s.func(), before);
}

// Channels of windows: the image is copied whole, with zeros behind each pixel.
TEST(PadEinsum, WindowsStayWhereTheyAre) {
  auto s = schedule_from(testing::kStridedConv);
  const BlockRef c = s.block("C");
  const auto copies = pad_einsum(s, {c, {1, 1, 4, 1, 1, 4}});
  ASSERT_OK(copies);
  EXPECT_EQ(copies->size(), 3u);
  EXPECT_NE(to_text(s.func()).find("A_pad[vh + vr, vw * 2 + vq, vc]"), std::string::npos) << to_text(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  auto rows = schedule_from(testing::kStridedConv);
  EXPECT_ERROR(pad_einsum(rows, {rows.block("C"), {4, 1, 1, 1, 1, 1}}), E214);  // h is part of h + r
}

TEST(PadEinsum, OnlyTheOutputOfAMaximum) {
  auto s = schedule_from("for i in 5: for k in 6: C[i] max= A[i, k]");
  EXPECT_ERROR(pad_einsum(s, {s.block("C"), {1, 4}}), E212);  // zero may be greater than all
  ASSERT_OK(pad_einsum(s, {s.block("C"), {4, 1}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// Of a single k all is read at 0: of the k that come beside it that is not true.
TEST(PadEinsum, WhatWasStatedOfAccessesIsNotKept) {
  auto s = schedule_from("for i in 5: for k in 1: C[i] += A[i, k]");
  const BlockRef c = s.block("C");
  ASSERT_OK(annotate_buffer_access(s, {c, 0, "read", map_of("(i, k) -> (i, i + 1, k, k + 1)")}));
  ASSERT_OK(pad_einsum(s, {c, {4, 4}}));
  ASSERT_OK(compute_at(s, {s.block("A_pad"), s.loop("k"), false}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(PadEinsum, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(pad_einsum(s, {c, {4, 4}}), E202);
  EXPECT_ERROR(pad_einsum(s, {c, {4, 0, 4}}), E202);
  EXPECT_ERROR(pad_einsum(s, {BlockRef(StepRef{99, 0}), {4}}), E225);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(pad_einsum(s, {c, {4, 4, 4}}), E201);

  // Infinity times the zero of a surplus k would be no number.
  auto scaled = schedule_from("for i in 5: for k in 6: C[i] += A[i, k] * B[i]");
  EXPECT_ERROR(pad_einsum(scaled, {scaled.block("C"), {1, 4}}), E212);
  auto window = schedule_from("for i in 5: for k in 6: C[i] += A[i + k]");
  EXPECT_ERROR(pad_einsum(window, {window.block("C"), {4, 1}}), E214);
  auto copy = schedule_from("for i in 5: B[i] = A[i]");
  EXPECT_ERROR(pad_einsum(copy, {copy.block("B"), {4}}), E212);
  auto tiled = schedule_from(kMatmul);
  ASSERT_OK(tile(tiled, {{tiled.loop("j")}, {4}}));
  EXPECT_ERROR(pad_einsum(tiled, {tiled.block("C"), {4, 4, 4}}), E207);
  auto symbolic = schedule_from(R"(
func symbolic(A: f32[n, 6], C: f32[n] output, n: i64 in 1..100):
  for i in n:
    for k in 6:
      block C(vi: spatial[n] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
)");
  EXPECT_ERROR(pad_einsum(symbolic, {symbolic.block("C"), {4, 1}}), E221);
}

// What is not padded may be open.
TEST(PadEinsum, OfOpenRows) {
  auto s = schedule_from(R"(
func product(A: f32[n, 6], B: f32[6, 8], C: f32[n, 8] output, n: i64 in 1..100):
  for i in n:
    for j in 8:
      for k in 6:
        block C(vi: spatial[n] = i, vj: spatial[8] = j, vk: reduce[6] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
  const auto copies = pad_einsum(s, {s.block("C"), {1, 1, 4}});
  ASSERT_OK(copies);
  EXPECT_EQ(copies->size(), 2u);
  for (const int64_t n : {1, 2, 7, 100}) EXPECT_TRUE(testing::same_result(s.original, s.func(), {n}));
}

TEST(PadEinsum, OtherErrors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(pad_einsum(s, {t, {1, 1}}), E206);
}

// Of one value the output has no index for: more of it would add the same again.
TEST(PadEinsum, E214AnIteratorThatIsNoIndex) {
  auto s = schedule_from(R"(
func total(A: f32[3], B: f32[] output):
  for i in 1:
    for k in 3:
      block B(vi: spatial[1] = i, vk: reduce[3] = k):
        reads A[vk]
        writes B[]
        init:
          B[] = 0.0
        B[] = B[] + A[vk]
)");
  EXPECT_ERROR(pad_einsum(s, {s.block("B"), {4, 1}}), E214);
}

}  // namespace
}  // namespace fettle
