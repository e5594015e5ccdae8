// The search benchmark's own arithmetic, and that each mode finds something for each kind of task.

#include <gtest/gtest.h>

#include <cmath>

#include "search/figures.h"
#include "search/rank_tests.h"

namespace fettle::bench {
namespace {

Record record(std::string trace, double seconds, double elapsed_s, uint64_t run = 1, int64_t generation = 1) {
  Record r;
  r.trace = std::move(trace);
  r.median_s = r.min_s = seconds;
  r.elapsed_s = elapsed_s;
  r.run = run;
  r.generation = generation;
  return r;
}

TEST(SearchRecords, ACurveGoesOnAfterAnInterruption) {
  Record slow = record("c", 9, 3);
  slow.raced_out = true;
  const std::vector<Record> records = {record("default", 5, 0.5, 1, 0),
                                       record("a", 4, 1),
                                       record("b", 3, 2),
                                       slow,
                                       record("b", 3.1, 3.5, 1, -1),  // timed again: no trial
                                       record("d", 2, 7, 2),
                                       record("e", 1, 8, 2)};
  const Curve curve = read_curve(records, true);
  EXPECT_EQ(curve.trials, 6);
  EXPECT_EQ(curve.raced_out, 1);
  EXPECT_EQ(curve.improvements.size(), 5u);
  EXPECT_DOUBLE_EQ(curve.seconds, 4);  // 3, then one more in the second run
  EXPECT_EQ(curve.trials_to(2.5), 5);
  EXPECT_EQ(curve.trials_to(0.5), 0);
  EXPECT_EQ(curve.best_after(3), 3);
  EXPECT_EQ(curve.best_trace_after(5), "d");
  EXPECT_EQ(read_curve(records, false).trials, 5);
  EXPECT_TRUE(std::isinf(read_curve({}, true).best_after(10)));
}

TEST(RankTests, AgreeWithTables) {
  // All of n = 5 on one side: 1/32.
  EXPECT_DOUBLE_EQ(wilcoxon_p({-1, -2, -3, -4, -5}), 1.0 / 32);
  EXPECT_DOUBLE_EQ(wilcoxon_p({1, 2, 3, 4, 5}), 1.0);
  // n = 5, positive rank 1: two of 32 ways are no more.
  EXPECT_DOUBLE_EQ(wilcoxon_p({1, -2, -3, -4, -5}), 2.0 / 32);
  EXPECT_DOUBLE_EQ(wilcoxon_p({0, 0}), 1.0);
  EXPECT_DOUBLE_EQ(wilcoxon_p({-1, 1}), 0.75);  // shared ranks
  EXPECT_NEAR(sign_test_p({-1, -1, -1, 1}), 5.0 / 16, 1e-12);
  EXPECT_DOUBLE_EQ(geometric_mean({1, 4}), 2.0);
}

Curve curve(std::vector<CurvePoint> points, int64_t trials) {
  Curve c;
  c.improvements = std::move(points);
  c.traces.resize(c.improvements.size());
  c.trials = trials;
  c.seconds = static_cast<double>(trials) / 40;
  return c;
}

TEST(SearchFigures, AreTakenFromCurvesAndWhatIsMissingIsSaid) {
  TaskCurves task{.name = "matmul 512x512x512", .flops = 1e9};
  for (const char* mode : {"autotvm", "ansor", "metaschedule"})
    task.modes[mode] = {curve({{1, 1, 4e-3}, {256, 60, 2e-3}}, 256)};
  task.modes["fourth"] = {curve({{1, 0.1, 3e-3}, {16, 0.5, 2e-3}, {20, 1, 1e-3}}, 64)};
  Report report("test");
  const auto missing = add_figures(report, {task}, {.peak_gflops = 1000});
  const std::string table = report.table();
  EXPECT_NE(table.find("fourth: share of trials to the best 256-trial result of the three, geometric mean of 1 tasks"),
            std::string::npos);
  EXPECT_NE(report.json().find("0.0625"), std::string::npos) << report.json();
  EXPECT_NE(report.json().find("GEMM 512^3: time to 95 % of peak, fourth"), std::string::npos);
  EXPECT_FALSE(missing.empty());
  EXPECT_EQ(report.json().find("TVM"), std::string::npos);  // not measured: no row
}

}  // namespace
}  // namespace fettle::bench
