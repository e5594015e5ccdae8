// Programs that work row by row, as the default schedules them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "schedule/testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::decided;
using testing::expect_same;

TEST(DefaultSchedule, OfASoftmax) {
  const auto s = default_schedule(testing::softmax_workload(96, 40), avx512(), 2);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
  expect_same(testing::softmax_workload(96, 40), *s);
}

TEST(DefaultSchedule, OfAttentionTakesItsRowsThroughTheSoftmaxAtOnce) {
  const Func func = testing::attention_workload(2, 64, 32);
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_TRUE(s.has_value()) << s.error().to_string();
  const auto row_of = [&](const char* name) {
    return loops_around(s->func(), find_block(s->func()->body, name)).at(1);
  };
  for (const char* name : {"M", "E", "T_partial"}) EXPECT_EQ(row_of(name), row_of("P")) << name;
  EXPECT_NE(loops_around(s->func(), find_block(s->func()->body, "Y")).front(),
            loops_around(s->func(), find_block(s->func()->body, "P")).front());
}

// Several rows at once, which do not divide theirs: four short ones, two others. Rows of one vector, too.
TEST(DefaultSchedule, TakesOddRowsTogether) {
  const auto expect_rows = [](const Func& func, const char* rows) {
    const auto s = default_schedule(func, avx512(), 2);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->trace()).find(fmt::format("# row_fusion/Y/rows: {}\n", rows)), std::string::npos) << rows;
    expect_same(func, *s);
  };
  for (const Func& func : {testing::softmax_workload(97, 40), testing::layer_norm_workload(97, 24),
                           testing::softmax_workload(41, 16), testing::layer_norm_workload(1001, 8)})
    expect_rows(func, "4");
  for (const Func& func : {testing::softmax_workload(51, 300), testing::layer_norm_workload(51, 300)})
    expect_rows(func, "2");
}

// Lanes along the dimension that is contiguous, whatever else is summed over: nothing is transposed for it.
TEST(DefaultSchedule, SumsAroundWhatIsKeptInLanes) {
  const te::Tensor x = te::placeholder({6, 7, 50}, kF32, "X");
  const te::Tensor y = te::compute({7},
                                   [&](const std::vector<Var>& i) -> te::Body {
                                     const te::ReduceAxis j = te::reduce_axis(6, "j"), k = te::reduce_axis(50, "k");
                                     return te::sum(x(testing::Indices{j.var, i[0], k.var}), {j, k});
                                   },
                                   "Y", {"i"});
  const Func func = te::create_func("sums", {x}, {y});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_EQ(to_text(s->trace()).find("cache_read"), std::string::npos);
  EXPECT_NE(to_text(s->trace()).find("split_reduction"), std::string::npos);
  expect_same(func, *s);
}

// The sum over a long row is taken while its exponentials are worked out.
TEST(DefaultSchedule, SumsLongRowsInPassing) {
  for (const int64_t columns : {700, 1024}) {
    const Func func = testing::softmax_workload(3, columns);
    const auto s = default_schedule(func, avx512(), 1);
    ASSERT_OK(s);
    const auto innermost = [&](const char* name) {
      const auto loops = loops_around(s->func(), find_block(s->func()->body, name));
      return loops.at(1);  // below the rows
    };
    EXPECT_EQ(innermost("E"), innermost("S_partial")) << columns;
    expect_same(func, *s);
  }
}

// Passes over one short row of sums are unrolled; several rows, and exponentials, keep their loops.
TEST(DefaultSchedule, UnrollsPassesOverShortRowsOfSums) {
  const auto unrolls = [](const Func& func) {
    const auto s = default_schedule(func, avx512(), 1);
    EXPECT_TRUE(s.has_value());
    const DecisionMap decisions = s->decisions();
    const auto found =
        std::ranges::find_if(decisions, [](const auto& decision) { return decision.first.ends_with("/unroll_rows"); });
    return found == decisions.end() ? int64_t{-1} : found->second.integer().value();
  };
  EXPECT_EQ(unrolls(testing::layer_norm_workload(1, 768)), 1);
  EXPECT_EQ(unrolls(testing::layer_norm_workload(128, 768)), 0);
  EXPECT_EQ(unrolls(testing::softmax_workload(128, 768)), 0);
  EXPECT_EQ(unrolls(testing::layer_norm_workload(128, 4096)), -1);  // not offered
}

// Short rows go through the passes several at once, all of which the first-level cache keeps, and to threads in few
// runs.
TEST(DefaultSchedule, TakesRowsTogether) {
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 1, "rows"), 2);
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 1, "runs"), -1);
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 2, "runs"), 4);
  EXPECT_EQ(decided(testing::layer_norm_workload(1, 768), 2, "rows"), -1);
  EXPECT_EQ(decided(testing::softmax_workload(1536, 128), 2, "rows"), 2);
  EXPECT_EQ(decided(testing::softmax_workload(1536, 128), 2, "runs"), 16);
  EXPECT_EQ(decided(testing::softmax_workload(40, 6625), 2, "rows"), 1);
  EXPECT_EQ(decided(testing::softmax_workload(40, 6625), 2, "runs"), 4);  // 16 are 14, of which one is short
}

// Rows that neither runs nor what is worked on at once divide.
// A matrix that comes from memory: lines of eight rows are under way at once.
TEST(DefaultSchedule, ReadsRowsOfALargeMatrixTogether) {
  const auto product = [](int rows) {
    return parse_func(fmt::format(R"(func product(A: f32[{0}, 704], x: f32[704], y: f32[{0}] output):
  for i in {0}:
    for k in 704:
      block y(vi: spatial[{0}] = i, vk: reduce[704] = k):
        reads A[vi, vk], x[vk]
        writes y[vi]
        init:
          y[vi] = 0.0
        y[vi] = y[vi] + A[vi, vk] * x[vk]
)",
                                  rows));
  };
  for (const int rows : {20, 1003}) {
    const auto func = product(rows);
    ASSERT_OK(func);
    const auto s = default_schedule(*func, avx512(), 1);
    ASSERT_OK(s);
    const bool together = to_text(s->trace()).find("/rows: 8\n") != std::string::npos;
    EXPECT_EQ(together, rows > 1000) << to_text(s->trace());
    expect_same(*func, *s);
  }
}

TEST(RuleSpace, OddRowsTogether) {
  for (const Func& func : {testing::layer_norm_workload(67, 170), testing::softmax_workload(67, 170)}) {
    std::set<std::string> seen;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      const auto s = rule_space().generate(func, avx512(), 2, seed, nullptr);
      ASSERT_OK(s);
      std::string key;
      for (const auto& [address, decision] : s->decisions())
        if (address.ends_with("/rows") || address.ends_with("/runs")) key += to_text(decision) + " ";
      if (seen.insert(key).second) expect_same(func, *s);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(seen.size(), 4u);
  }
}

TEST(DefaultSchedule, OfASoftmaxWhoseRowsLieSideBySide) {
  const auto s = default_schedule(testing::softmax_middle_workload(2, 5, 70), avx512(), 1);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
}

}  // namespace
}  // namespace fettle
