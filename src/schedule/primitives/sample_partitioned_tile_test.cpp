#include "schedule/primitives/sample_partitioned_tile.h"

#include <set>

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 96: B[i] = A[i]";

TEST(SamplePartitionedTile, TheInnerPartHoldsTheFactor) {
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto s = schedule_from(kCopy, seed);
    auto v = sample_partitioned_tile(s, {s.loop("i"), 4, 2, 16, "i"});
    ASSERT_OK(v);
    ASSERT_EQ(v->size(), 4u);
    std::vector<int64_t> factors;
    for (const ValueRef& ref : *v) factors.push_back(s.value(ref).value());
    EXPECT_EQ(factors[0] * factors[1] * factors[2] * factors[3], 96);
    EXPECT_EQ(factors[2] * factors[3] % 16, 0);
    seen.insert(factors);
  }
  EXPECT_GT(seen.size(), 10u);
}

TEST(SamplePartitionedTile, FeedsSplit) {
  auto s = schedule_from(kCopy, 3);
  auto v = sample_partitioned_tile(s, {s.loop("i"), 3, 1, 8, "i"});
  ASSERT_OK(v);
  ASSERT_OK(split(s, {s.loop("i"), {(*v)[0], (*v)[1], (*v)[2]}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(SamplePartitionedTile, WhatCannotBeMetIsNotAskedFor) {
  auto s = schedule_from(kCopy, 3);
  auto v = sample_partitioned_tile(s, {s.loop("i"), 2, 1, 5, "i"});  // 5 does not divide 96
  ASSERT_OK(v);
  EXPECT_EQ(s.value((*v)[0]).value() * s.value((*v)[1]).value(), 96);
  ASSERT_OK(sample_partitioned_tile(s, {s.loop("i"), 2, 2, 16, "all outside"}));
  EXPECT_REPLAYS(s);
}

TEST(SamplePartitionedTile, Errors) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 0, 0, 1, "i"}), E202);
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 17, 0, 1, "i"}), E202);
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 2, 3, 1, "i"}), E202);
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 2, -1, 1, "i"}), E202);
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 2, 1, 0, "i"}), E202);
  ASSERT_OK(split(s, {i, {8, 12}}));
  EXPECT_ERROR(sample_partitioned_tile(s, {i, 2, 1, 4, "i"}), E206);

  auto symbolic = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(sample_partitioned_tile(symbolic, {symbolic.loop("i"), 2, 1, 4, "i"}), E221);
}

TEST(SamplePartitionedTile, E223ReplayedDecisionOutside) {
  for (const char* decision : {"[96]", "[6, 8]", "[12, 8]", "[-6, -16]"}) {
    auto s = schedule_from(kCopy);
    auto trace = parse_trace(std::string(R"(
      b0 = get_block(name="B")
      l1 = get_loops(block=b0)
      v2, v3 = sample_partitioned_tile(loop=l1, n=2, partition_pos=1, innerpart_factor=16, name="i")  # i: )") +
                             decision);
    ASSERT_OK(trace);
    EXPECT_ERROR(replay(s, *trace), E223);
  }
}

}  // namespace
}  // namespace fettle
