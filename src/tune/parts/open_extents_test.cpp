// Every part on a program whose extents are parameters: it makes a schedule that works, or says by name why not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lower/lower.h"
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

// A product of matrices, one of whose extents is n.
TestSchedule product(const char* rows = "n", const char* columns = "32", const char* terms = "16",
                     const char* weights = "constant") {
  return schedule_from(fmt::format(R"(
func product(A: f32[{0}, {2}], B: f32[{2}, {1}] {3}, C: f32[{0}, {1}] output, n: i64 in 1..100):
  for i in {0}:
    for j in {1}:
      for k in {2}:
        block C(vi: spatial[{0}] = i, vj: spatial[{1}] = j, vk: reduce[{2}] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)",
                                   rows, columns, terms, weights));
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

// As scheduled, and as lowered, for one value of n.
void expect_same(const TestSchedule& s, int64_t n) {
  EXPECT_TRUE(testing::same_result(s.original, s.func(), {n})) << n << to_text(s.func());
  const auto lowered = lower(s.func(), avx512(), {.prologue = false});
  ASSERT_OK(lowered);
  if (lowered->kernel_params.size() != s.func()->params.size()) return;  // panels that a prologue packs
  const auto run = [&](std::span<const BufferArg> args, std::span<const int64_t> ints) {
    return interpret(lowered->kernel, args, ints);
  };
  EXPECT_TRUE(testing::same_result(s.original, s.func(), {n}, run)) << n << to_text(lowered->kernel);
}

TEST(OpenExtents, RegisterTile) {
  PreferringDecider decider;
  for (const char* weights : {"constant", ""}) {
    auto s = product("n", "32", "16", weights);
    EXPECT_TRUE(fits_register_tile(s.func(), *blocks_of(s.func().root()).front()));
    ASSERT_OK(register_tile(s, avx512(), decider, s.block("C"), {.threads = 2}));
    EXPECT_NE(to_text(s.func()).find("tail(balance)"), std::string::npos) << to_text(s.func());
    EXPECT_REPLAYS(s);
    for (const int64_t n : {1, 13, 14, 100}) expect_same(s, n);
  }

  // Tiles of any height, and sums of an open number of steps.
  for (const size_t rank : {0, 5, 11}) {
    PreferringDecider other({.ranks = {{"tile", rank}, {"rows_outside", 1}}});
    auto sums = product("20", "32", "n", "");
    ASSERT_OK(register_tile(sums, avx512(), other, sums.block("C")));
    for (const int64_t n : {1, 7, 64}) expect_same(sums, n);
  }
}

// Lanes beyond the last column are masked; those of packed panels are zero.
TEST(OpenExtents, RegisterTileOfOpenColumns) {
  PreferringDecider decider;
  for (const char* rows : {"8", "n"}) {
    auto s = product(rows, "n", "16", "");
    EXPECT_TRUE(fits_register_tile(s.func(), *blocks_of(s.func().root()).front()));
    ASSERT_OK(register_tile(s, avx512(), decider, s.block("C")));
    EXPECT_REPLAYS(s);
    for (const int64_t n : {1, 15, 16, 33, 100}) expect_same(s, n);
  }
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
