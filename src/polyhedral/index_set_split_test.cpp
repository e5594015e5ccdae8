#include "polyhedral/index_set_split.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// All shortest paths. `pivot`: the row and column that iteration k reads.
std::string shortest_paths(int n, const std::string& pivot) {
  return fmt::format(R"(func paths(X: i32[{0}, {0}], P: i32[{0}, {0}] output):
  for a in {0}:
    for b in {0}:
      block copy(va: spatial[{0}] = a, vb: spatial[{0}] = b):
        reads X[va, vb]
        writes P[va, vb]
        P[va, vb] = X[va, vb]
  for k in {0}:
    for i in {0}:
      for j in {0}:
        block S(vk: scan[{0}] = k, vi: scan[{0}] = i, vj: scan[{0}] = j):
          reads P[vi, vj], P[vi, {1}], P[{1}, vj]
          writes P[vi, vj]
          P[vi, vj] = min(P[vi, vj], P[vi, {1}] + P[{1}, vj])
)",
                     n, pivot);
}

// Loops of that kind around blocks other than copies.
int loops_of_kind(const Schedule& s, ForKind kind) {
  int count = 0;
  each_node<ForNode>(s.func()->body, [&](const ForNode& loop) {
    count += loop.loop_kind == kind && blocks_under(Stmt(Ref<const ForNode>(&loop))).front()->name.starts_with("S");
  });
  return count;
}

TEST(IndexSetSplit, PartsAtThePivotHaveLanes) {
  for (const char* pivot : {"vk", "18 - vk"}) {
    auto s = schedule_from(shortest_paths(19, pivot));
    ASSERT_OK(split_index_sets(s, {"S"}, 4, false));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    // Rows before, at and behind the pivot, of columns before and behind it.
    EXPECT_EQ(loops_of_kind(s, ForKind::kVectorized), 6) << pivot;
    EXPECT_EQ(loops_of_kind(s, ForKind::kParallel), 0) << pivot;
  }
}

TEST(IndexSetSplit, ThreadsShareRows) {
  auto s = schedule_from(shortest_paths(19, "vk"));
  ASSERT_OK(split_index_sets(s, {"S"}, 4, true));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  EXPECT_EQ(loops_of_kind(s, ForKind::kParallel), 2) << "rows before and behind the pivot";
}

// Each iteration needs the one before: there is no one place.
TEST(IndexSetSplit, LeavesRecurrencesAlone) {
  auto s = schedule_from(R"(func sums(X: f32[9, 9], A: f32[9, 9] output):
  for a in 9:
    for b in 9:
      block copy(va: spatial[9] = a, vb: spatial[9] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for i in 8:
    for j in 8:
      block S(vi: scan[8] = i, vj: scan[8] = j):
        reads A[vi, vj + 1], A[vi + 1, vj], A[vi + 1, vj + 1]
        writes A[vi + 1, vj + 1]
        A[vi + 1, vj + 1] = A[vi + 1, vj + 1] + A[vi, vj + 1] + A[vi + 1, vj]
)");
  EXPECT_ERROR(split_index_sets(s, {"S"}, 4, false), E211);
  EXPECT_EQ(s.trace().size(), 0u);
}

}  // namespace
}  // namespace fettle
