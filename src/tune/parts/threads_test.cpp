#include "tune/parts/threads.h"

#include <gtest/gtest.h>

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// "i i_0": the loops, outermost first, of which * are parallel.
std::string loops_around_block(TestSchedule& s, const std::string& block) {
  std::string text;
  for (const LoopRef& ref : s.loops(s.block(block))) {
    const auto stmt = s.loop(ref);
    const auto* loop = stmt->as<ForNode>();
    text += loop->loop_kind == ForKind::kParallel ? "*" : "";
    text += std::to_string(as_int(loop->extent) ? *as_int(loop->extent) : 0) + " ";
  }
  return text;
}

std::string dealt_out(const std::string& text, const ParallelOptions& options) {
  auto s = schedule_from(text);
  EXPECT_OK(parallelize(s, s.loops(s.block("B")), options));
  EXPECT_SAME_RESULT(s);
  return loops_around_block(s, "B");
}

TEST(Parallelize, TakesTheLoopsThatKeepAllThreadsBusy) {
  EXPECT_EQ(dealt_out("for i in 8: for j in 5: B[i, j] = A[i, j]", {.threads = 4}), "*8 5 ");
  EXPECT_EQ(dealt_out("for i in 3: for j in 8: B[i, j] = A[i, j]", {.threads = 4}), "*24 ");
  EXPECT_EQ(dealt_out("for i in 1: for j in 8: B[i, j] = A[i, j]", {.threads = 4}), "1 *8 ");
  EXPECT_EQ(dealt_out("for i in 8: for j in 5: B[i, j] = A[i, j]", {.threads = 1}), "8 5 ");
}

TEST(Parallelize, APieceEach) {
  EXPECT_EQ(dealt_out("for i in 64: B[i] = A[i]", {.threads = 4, .a_piece_each = true}), "*4 16 ");
  EXPECT_EQ(dealt_out("for i in 3: B[i] = A[i]", {.threads = 4, .a_piece_each = true}), "*3 ");
}

TEST(Parallelize, LeavesWhatIsCarried) { EXPECT_EQ(dealt_out("for k in 8: B[0] += A[k]", {.threads = 4}), "8 "); }

TEST(ParallelTogether, FusesAsManyAsIterate) {
  auto s = schedule_from("for i in 3: for o in 1: for j in 4: for k in 5: B[i, o, j, k] = A[i, o, j, k]");
  ASSERT_OK(parallel_together(s, s.loops(s.block("B")), 2));
  EXPECT_EQ(loops_around_block(s, "B"), "*12 5 ");
}

TEST(WorthThreads, IsAChoiceOnlyWhereItIsNotClear) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  PreferringDecider decider;
  const auto worth = [&](int threads, double ns) { return *worth_threads(s, decider, threads, ns); };
  EXPECT_FALSE(worth(1, 1e9));
  EXPECT_FALSE(worth(2, 100));
  EXPECT_TRUE(worth(2, 1e6));
  EXPECT_EQ(to_text(s.trace()).find("parallel"), std::string::npos);
  EXPECT_FALSE(worth(2, 300));
  EXPECT_TRUE(worth(2, 1000));
  EXPECT_NE(to_text(s.trace()).find("parallel"), std::string::npos);
}

}  // namespace
}  // namespace fettle
