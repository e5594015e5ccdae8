#include "polyhedral/column_blocks.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "ir/text.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// An orthogonalisation by columns, with maxima and minima in place of sums and products, which keep numbers small.
// `other`: what a column also waits for.
std::string orthogonalisation(int rows, int columns, const std::string& other) {
  return fmt::format(
      R"(func mgs(X: f32[{0}, {1}], A: f32[{0}, {1}] output, Q: f32[{0}, {1}] output, R: f32[{1}, {1}] output):
  for a in {0}:
    for b in {1}:
      block copy(va: spatial[{0}] = a, vb: spatial[{1}] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for a in {1}:
    for b in {1}:
      block clear(va: spatial[{1}] = a, vb: spatial[{1}] = b):
        writes R[va, vb]
        R[va, vb] = 0.0
  for k in {1}:
    block length(vk: scan[{1}] = k):
      reads A[0, vk]
      writes R[vk, vk]
      R[vk, vk] = A[0, vk] + 1.0
    for i in {0}:
      block scale(vk: scan[{1}] = k, vi: scan[{0}] = i):
        reads A[vi, vk], R[vk, vk]
        writes Q[vi, vk]
        Q[vi, vk] = min(A[vi, vk], R[vk, vk])
    for j in k +: {3} - k:
      block begin(vk: scan[{1}] = k, vj: scan[{3}] = j):
        writes R[vk, vj + 1]
        R[vk, vj + 1] = 0.0
      for i in {0}:
        block S(vk: scan[{1}] = k, vj: scan[{3}] = j, vi: reduce[{0}] = i):
          reads R[vk, vj + 1], Q[vi, vk], A[vi, vj + 1]
          writes R[vk, vj + 1]
          R[vk, vj + 1] = max(R[vk, vj + 1], Q[vi, vk] - A[vi, vj + 1])
      for i in {0}:
        block T(vk: scan[{1}] = k, vj: scan[{3}] = j, vi: scan[{0}] = i):
          reads A[vi, vj + 1], Q[vi, vk], R[vk, vj + 1], {2}
          writes A[vi, vj + 1]
          A[vi, vj + 1] = max(A[vi, vj + 1] - Q[vi, vk], min(R[vk, vj + 1], {2}))
)",
      rows, columns, other, columns - 1);
}

const std::vector<std::string> kAll = {"length", "scale", "begin", "S", "T"};

// How many copies of the block stand in a whole tile, of lanes in vectors that are written out.
int whole_tiles(const Schedule& s, const std::string& block) {
  int count = 0;
  for (const BlockNode* copy : blocks_of(s.func().root())) {
    const auto loops = loops_around(s.func(), copy);
    const size_t n = loops.size();
    count += copy->name.starts_with(block) && n >= 2 && loops[n - 1]->loop_kind == ForKind::kVectorized &&
             loops[n - 2]->loop_kind == ForKind::kUnrolled;
  }
  return count;
}

TEST(ColumnBlocks, TilesBeyondABlockTakeItsSteps) {
  // With lanes of 2, tiles are 12 wide and blocks 48 deep: the second has a tile that is not whole.
  for (const int columns : {60, 79}) {
    auto s = schedule_from(orthogonalisation(5, columns, "R[vk, vk]"));
    ASSERT_OK(block_columns(s, kAll, 2, true));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    for (const char* block : {"begin", "S", "T"}) EXPECT_EQ(whole_tiles(s, block), 1) << to_text(s.func());
    int parallel_loops = 0;
    each_node<ForNode>(s.func()->body,
                       [&](const ForNode& loop) { parallel_loops += loop.loop_kind == ForKind::kParallel; });
    EXPECT_EQ(parallel_loops, columns == 79) << "one tile alone has no loop";
    // Tiles read the block's columns from one copy, a step's side by side.
    const BlockNode* sum = find_block(s.func()->body, "S");
    const BlockNode* update = find_block(s.func()->body, "T");
    ASSERT_TRUE(find_block(s.func()->body, "Q_global")) << to_text(s.func());
    for (const BlockNode* reader : {sum, update})
      EXPECT_EQ(
          std::ranges::count_if(reader->reads, [&](const Region& read) { return read.buffer->name == "Q_global"; }), 1)
          << to_text(s.func());
  }
}

// What is eliminated reads what the tile itself writes: its rows are not copied.
TEST(ColumnBlocks, OfAnElimination) {
  auto s = schedule_from(R"(func eliminate(X: f32[60, 60], A: f32[60, 60] output, L: f32[60, 60] output):
  for a in 60:
    for b in 60:
      block copy(va: spatial[60] = a, vb: spatial[60] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for a in 60:
    for b in 60:
      block clear(va: spatial[60] = a, vb: spatial[60] = b):
        writes L[va, vb]
        L[va, vb] = 0.0
  for k in 60:
    for i in k +: 59 - k:
      block factor(vk: scan[60] = k, vi: scan[59] = i):
        reads A[vi + 1, vk], A[vk, vk]
        writes L[vi + 1, vk]
        L[vi + 1, vk] = min(A[vi + 1, vk], A[vk, vk])
      for j in k +: 60 - k:
        block update(vk: scan[60] = k, vi: scan[59] = i, vj: scan[60] = j):
          reads A[vi + 1, vj], L[vi + 1, vk], A[vk, vj]
          writes A[vi + 1, vj]
          A[vi + 1, vj] = max(A[vi + 1, vj], min(L[vi + 1, vk], A[vk, vj]))
)");
  ASSERT_OK(block_columns(s, {"factor", "update"}, 2, true));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_EQ(whole_tiles(s, "update"), 1) << to_text(s.func());
}

TEST(ColumnBlocks, AreRefusedWhereColumnsWaitForOthers) {
  auto s = schedule_from(orthogonalisation(5, 60, "A[vi, 59]"));
  EXPECT_ERROR(block_columns(s, kAll, 2, true), E227);
  EXPECT_ERROR(block_columns(s, {"copy"}, 2, true), E211);
  EXPECT_EQ(s.trace().size(), 0u);
}

}  // namespace
}  // namespace fettle
