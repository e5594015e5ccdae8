#include "tune/parts/rows.h"

#include <gtest/gtest.h>

#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "tune/parts/lane_reductions.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

constexpr int64_t kLanes = 8;
constexpr const char* kNorm = R"(
for i in 13: for k in 24: S[i] += A[i, k]
for i in 13: for k in 24: D[i, k] = A[i, k] - S[i]
for i in 13: for k in 24: Q[i] += D[i, k] * D[i, k]
for i in 13: for k in 24: Y[i, k] = D[i, k] * Q[i]
)";

// A is read, Y is written, and what lies between is the program's own.
TestSchedule program(const char* loops) {
  const Func func = schedule_from(loops).func();
  std::vector<Buffer> own;
  return TestSchedule(with(func, [&](FuncNode& f) {
    std::erase_if(f.params, [&](const Param& param) {
      const bool stays = param.buffer->name == "A" || param.buffer->name == "Y";
      if (!stays) own.push_back(param.buffer);
      return !stays;
    });
    f.body = with(func.root(), [&](BlockNode& root) { root.allocations = own; });
  }));
}

std::vector<std::string> names(const Schedule& s) {
  std::vector<std::string> result;
  for (const BlockNode* block : blocks_of(s.func().root())) result.push_back(block->name);
  return result;
}

// All blocks in one nest, and what each does with its rows.
Result<std::vector<LoopRef>> fused(Schedule& s, const FuseRowsOptions& options, const RowPassOptions& pass) {
  const auto group = row_group(s.func());
  if (!group) return fail(ErrorCode::E230, "no rows in common");
  FETTLE_TRY(std::vector<RowPart> parts, row_parts(s.func(), *group, kLanes));
  FETTLE_TRY(const std::vector<LoopRef> rows, fuse_rows(s, *group, parts, options));
  for (const RowPart& part : parts) {
    FETTLE_TRY(const RowPass found, row_pass(s, part, kLanes));
    FETTLE_TRY_VOID(schedule_row_pass(s, found, pass));
  }
  return rows;
}

// Rows that neither runs nor what is worked on at once divide.
TEST(Rows, AreFusedPassByPass) {
  for (const int64_t at_once : {1, 2, 5})
    for (const int64_t runs : {1, 3})
      for (const RowsAt where : {RowsAt::kOutside, RowsAt::kInsideSteps, RowsAt::kInsideBlocks}) {
        auto s = program(kNorm);
        const auto rows = fused(s, {.at_once = at_once, .runs = runs}, {.rows = where});
        ASSERT_OK(rows);
        EXPECT_EQ(rows->size(), runs > 1 ? 2u : 1u);
        EXPECT_SAME_RESULT(s);
        EXPECT_REPLAYS(s);
      }
}

TEST(Rows, LongOnesTakeSeveralVectorsInATurn) {
  auto s = program(kNorm);
  ASSERT_OK(fused(s, {.at_once = 2}, {.rows = RowsAt::kInsideBlocks, .at_once = 2, .tail = Tail::kPartition}));
  EXPECT_SAME_RESULT(s);
}

// Lanes hold rows side by side where these are contiguous.
TEST(Rows, ContiguousOnesFillVectors) {
  for (const int64_t side_by_side : {0, 16}) {
    auto s = program(R"(
for k in 6: for i in 40: S[i] += A[k, i]
for k in 6: for i in 40: D[k, i] = A[k, i] - S[i]
for k in 6: for i in 40: Q[i] += D[k, i] * D[k, i]
for k in 6: for i in 40: Y[k, i] = D[k, i] * Q[i]
)");
    const auto rows = fused(s, {.side_by_side = side_by_side}, {});
    ASSERT_OK(rows);
    EXPECT_EQ(rows->size(), side_by_side > 0 ? 1u : 0u);
    EXPECT_SAME_RESULT(s);
  }
}

// What a sum in lanes is worked out from goes with it, row by row.
TEST(Rows, StepsTowardsASumAreWhereItIs) {
  auto s = program(kNorm);
  ASSERT_OK(reduce_in_lanes(s, s.block("S"), kLanes));
  const auto group = row_group(s.func());
  ASSERT_TRUE(group);
  auto parts = row_parts(s.func(), *group, kLanes);
  ASSERT_OK(parts);
  size_t steps = 0;
  for (size_t b = 0; b < parts->size(); ++b) {
    if (parts->at(b).head == b) continue;
    ++steps;
    EXPECT_EQ(parts->at(parts->at(b).head).name, "S");
  }
  EXPECT_EQ(steps, 3u);  // 8 parts, 4 and 2
  ASSERT_OK(fuse_rows(s, *group, *parts, {.at_once = 2}));
  for (size_t b = 0; b < parts->size(); ++b) EXPECT_EQ(parts->at(b).depth, parts->at(b).head == b ? 1u : 2u);
  EXPECT_SAME_RESULT(s);
}

TEST(Rows, ASumIsTakenAlongWithWhatItAdds) {
  auto s = program(kNorm);
  ASSERT_OK(reduce_in_lanes(s, s.block("Q"), kLanes));
  const auto group = row_group(s.func());
  ASSERT_TRUE(group);
  auto parts = row_parts(s.func(), *group, kLanes);
  ASSERT_OK(parts);
  ASSERT_OK(fuse_rows(s, *group, *parts, {}));
  const size_t made = static_cast<size_t>(std::ranges::find(*parts, "D", &RowPart::name) - parts->begin());
  const size_t blocks = names(s).size();
  EXPECT_FALSE(in_one_pass(s, parts->front(), parts->at(made), kLanes));
  ASSERT_OK(in_one_pass(s, parts->at(made), parts->at(made + 1), kLanes));
  EXPECT_EQ(names(s).size(), blocks + 1);  // what begins the sum
  EXPECT_SAME_RESULT(s);
}

TestSchedule open_rows() {
  return schedule_from(R"(
func rows(A: f32[n, 24], S: f32[n] output, n: i64 in 1..100):
  for i in n:
    for k in 24:
      block S(vi: spatial[n] = i, vk: reduce[24] = k):
        reads A[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + A[vi, vk]
)");
}

TEST(OpenExtents, Rows) {
  auto s = open_rows();
  EXPECT_FALSE(row_group(s.func(), blocks_of(s.func().root())));
  const auto parts = row_parts(s.func(), {.blocks = {"S"}, .rows = {0}, .rows_of = {{0}}}, kLanes);
  ASSERT_OK(parts);
  const auto pass = row_pass(s, {.name = "S"}, kLanes);
  ASSERT_OK(pass);
  // Lanes that are rows side by side, in an open number of vectors, cannot all be registers.
  EXPECT_TRUE(testing::fails_with(schedule_row_pass(s, *pass, {}), ErrorCode::E221));
}

TEST(OpenExtents, LaneReductions) {
  auto s = open_rows();
  PreferringDecider decider;
  ASSERT_OK(lane_reductions(s, parse_target("x86-64-avx512").value(), decider));
  EXPECT_EQ(names(s), (std::vector<std::string>{"S_partial", "S_8", "S_4", "S_2", "S"}));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
