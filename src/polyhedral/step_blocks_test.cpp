#include "polyhedral/step_blocks.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "polyhedral/scheduler.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using testing::schedule_from;

// An elimination: what is below the diagonal and what is not are blocks of their own, whose sums end at it. Maxima and
// minima keep numbers small.
std::string elimination(int n) {
  return fmt::format(R"(func eliminate(X: f32[{0}, {0}], A: f32[{0}, {0}] output):
  for a in {0}:
    for b in {0}:
      block copy(va: spatial[{0}] = a, vb: spatial[{0}] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for i in {0}:
    for j in i:
      for k in j:
        block L(vi: scan[{0}] = i, vj: scan[{0}] = j, vk: reduce[{0}] = k):
          reads A[vi, vj], A[vi, vk], A[vk, vj]
          writes A[vi, vj]
          A[vi, vj] = max(A[vi, vj], min(A[vi, vk], A[vk, vj]))
      block D(vi: scan[{0}] = i, vj: scan[{0}] = j):
        reads A[vi, vj], A[vj, vj]
        writes A[vi, vj]
        A[vi, vj] = min(A[vi, vj] + 1.0, A[vj, vj])
    for j in i +: {0} - i:
      for k in i:
        block U(vi: scan[{0}] = i, vj: scan[{0}] = j, vk: reduce[{0}] = k):
          reads A[vi, vj], A[vi, vk], A[vk, vj]
          writes A[vi, vj]
          A[vi, vj] = max(A[vi, vj], min(A[vi, vk], A[vk, vj]))
)",
                     n);
}

PolyhedralOptions blocks_of_steps(int64_t depth) {
  return {.fusion = FusionStrategy::kMin, .step_blocks = depth, .lanes = 4, .blocks = {"L", "D", "U"}};
}

// How many copies of the block stand in a whole tile: vectors in an unrolled loop, in rows, in steps.
int whole_tiles(const Schedule& s, const std::string& block) {
  int count = 0;
  for (const BlockNode* copy : blocks_of(s.func().root())) {
    if (!copy->name.starts_with(block)) continue;
    std::vector<ForKind> kinds;
    for (const ForNode* loop : loops_around(s.func(), copy)) kinds.push_back(loop->loop_kind);
    const std::vector<ForKind> tile = {ForKind::kSerial, ForKind::kUnrolled, ForKind::kUnrolled, ForKind::kVectorized};
    count += kinds.size() > tile.size() && std::equal(tile.rbegin(), tile.rend(), kinds.rbegin());
  }
  return count;
}

TEST(StepBlocks, WhatIsBeyondABlockIsProducts) {
  for (const int n : {36, 41}) {
    auto s = schedule_from(elimination(n));
    ASSERT_OK(reschedule_program(s, blocks_of_steps(12)));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    EXPECT_EQ(whole_tiles(s, "L"), 1) << to_text(s.func());
    EXPECT_EQ(whole_tiles(s, "U"), 1) << to_text(s.func());
  }
}

TEST(StepBlocks, OneBlockHasNone) {
  auto s = schedule_from(elimination(24));
  PolyhedralOptions options = blocks_of_steps(12);
  options.blocks = {"copy"};
  EXPECT_ERROR(reschedule_program(s, options), E211);
}

}  // namespace
}  // namespace fettle
