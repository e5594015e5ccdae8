// Every part on a program whose extents are parameters: it makes a schedule that works, or says by name why not.
#include <gtest/gtest.h>

#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/layouts.h"
#include "tune/parts/phases.h"
#include "tune/parts/register_tile.h"
#include "tune/parts/tensor_tile.h"
#include "tune/parts/threads.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

TestSchedule copies() {
  return schedule_from(R"(
func copies(A: f32[n, 24], C: f32[n, 24] output, n: i64 in 1..100):
  alloc T: f32[n, 24]
  for i in n:
    for j in 24:
      block T(vi: spatial[n] = i, vj: spatial[24] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] + 1.0
  for i in n:
    for j in 24:
      block C(vi: spatial[n] = i, vj: spatial[24] = j):
        reads T[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = T[vi, vj] * 2.0
)");
}

TestSchedule long_copy() {
  return schedule_from(R"(
func long_copy(A: f32[4, n], C: f32[4, n] output, n: i64 in 1..100):
  for i in 4:
    for j in n:
      block C(vi: spatial[4] = i, vj: spatial[n] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj]
)");
}

TestSchedule product() {
  return schedule_from(R"(
func product(A: f32[n, 16], B: f32[16, 32] constant, C: f32[n, 32] output, n: i64 in 1..100):
  for i in n:
    for j in 32:
      for k in 16:
        block C(vi: spatial[n] = i, vj: spatial[32] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
}

const Target& avx512() {
  static const Target target = parse_target("x86-64-avx512").value();
  return target;
}

bool names_block(const Diagnostic& diagnostic) { return diagnostic.to_string().find("C") != std::string::npos; }

TEST(OpenExtents, Inline) {
  auto s = copies();
  inline_producers(s, "C");
  EXPECT_EQ(blocks_of(s.func().root()).size(), 1u);
  EXPECT_SAME_RESULT(s);
  s = copies();
  inline_consumers(s, s.block("T"));
  EXPECT_EQ(blocks_of(s.func().root()).size(), 1u);
  EXPECT_SAME_RESULT(s);
}

TEST(OpenExtents, VectorizeCopy) {
  for (TestSchedule s : {copies(), long_copy()}) {
    ASSERT_OK(vectorize_copy(s, s.block("C"), 0, 8));
    EXPECT_NE(to_text(s.trace()).find("vectorize("), std::string::npos);
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
  }
}

TEST(OpenExtents, FillInVectors) {
  for (TestSchedule s : {copies(), long_copy()}) {
    ASSERT_OK(fill_in_vectors(s, s.block("C"), 8));
    EXPECT_SAME_RESULT(s);
  }
}

TEST(OpenExtents, Parallelize) {
  for (TestSchedule s : {copies(), long_copy()}) {
    ASSERT_OK(parallelize(s, s.loops(s.block("C")), {.threads = 4}));
    EXPECT_NE(to_text(s.trace()).find("parallel("), std::string::npos);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(OpenExtents, Layouts) {
  auto s = product();
  PreferringDecider decider;
  const BlockRef block = s.block("C");
  EXPECT_OK(split_phases(s, block));
  EXPECT_OK(split_groups(s, avx512(), decider, block));
  EXPECT_OK(choose_layouts(s, avx512(), decider, block));
  EXPECT_SAME_RESULT(s);
}

TEST(OpenExtents, RegisterTile) {
  auto s = product();
  PreferringDecider decider;
  EXPECT_FALSE(fits_register_tile(s.func(), *blocks_of(s.func().root()).front()));
  const auto made = register_tile(s, avx512(), decider, s.block("C"));
  ASSERT_TRUE(testing::fails_with(made, ErrorCode::E230));
  EXPECT_TRUE(names_block(made.error()));
}

TEST(OpenExtents, TensorTile) {
  auto s = product();
  PreferringDecider decider;
  const auto made = tensor_tile(s, avx512(), decider, s.block("C"));
  ASSERT_TRUE(testing::fails_with(made, ErrorCode::E230));
  EXPECT_TRUE(names_block(made.error()));
}

}  // namespace
}  // namespace fettle
