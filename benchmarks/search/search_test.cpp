// The search benchmark's own arithmetic, and that each mode finds something for each kind of task.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"
#include "cost/predict/predict.h"
#include "generations/registry.h"
#include "search/figures.h"
#include "search/learning.h"
#include "search/rank_tests.h"
#include "search/ranking.h"
#include "search/replayed.h"
#include "search/side_by_side.h"

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

TEST(SideBySide, TheFastestOfThreeContendersIsWhatATuningHandsOut) {
  Curve curve;
  curve.tried = {{1, 0.1, 5, "a"}, {4, 0.2, 4, "b"}, {6, 0.25, 6, "c"}, {9, 0.3, 3, "d"}, {12, 0.4, 2, "e"}};
  curve.improvements = {{1, 0.1, 5}, {4, 0.2, 4}, {9, 0.3, 3}, {12, 0.4, 2}};
  curve.traces = {"a", "b", "d", "e"};
  curve.trials = 16;
  // b seemed faster than a, and is not; e is believed, though it is slow; d has no other time than its own.
  const Curve again = with_times(curve, {{"a", 4.5}, {"b", 4.6}, {"c", 1}, {"e", 7}});
  EXPECT_EQ(again.best_after(1), 4.5);
  EXPECT_EQ(again.best_after(4), 4.5);
  EXPECT_EQ(again.best_trace_after(4), "a");
  EXPECT_EQ(again.best_after(8), 1);  // c is one of three
  EXPECT_EQ(again.best_after(9), 3);  // and now it is none: d, b, a
  EXPECT_EQ(again.best_after(12), 3);
  EXPECT_EQ(again.best_trace_after(12), "d");
  EXPECT_EQ(again.trials, 16);
  EXPECT_EQ(with_times(curve, {}).best_after(4), 4);
}

TEST(SideBySide, NothingSlowerThanTheDefaultIsHandedOut) {
  const std::vector<Record> records = {record("default", 5, 0.1, 1, 0), record("a", 4, 1), record("b", 3, 2),
                                       record("c", 6, 3), record("d", 2, 4)};
  const SideBySide times = {{"default", 4.5}, {"a", 4.7}, {"b", 4.8}, {"c", 1}, {"d", 4.6}};
  // a, b and d seemed faster than the default, and are not; c, which is, seemed slower: it is never timed again.
  const Curve tuned = with_times(read_curve(records, true), times);
  EXPECT_EQ(tuned.best_after(1), 4.5);
  EXPECT_EQ(tuned.best_after(5), 4.5);
  EXPECT_EQ(tuned.best_trace_after(5), "default");
  // A search that does not begin with the default has none to fall back on.
  const Curve blind = with_times(read_curve({records.begin() + 1, records.end()}, false), times);
  EXPECT_EQ(blind.best_after(2), 4.7);
  EXPECT_EQ(blind.best_after(3), 1);
  EXPECT_EQ(blind.best_after(4), 4.6);
}

TEST(Replayed, SearchesAreBroughtToOneScale) {
  const MeasuredBySearch large = {{"a", {1.0}}, {"b", {2.0}}, {"c", {3.0}}, {"d", {4.0}}, {"e", {9.0, true}}};
  // At half the pace; it knows f, and saw e to the end.
  const MeasuredBySearch slow = {{"a", {2.0}}, {"b", {4.0}}, {"c", {6.2}}, {"e", {12.0}}, {"f", {5.0}}};
  const MeasuredBySearch apart = {{"a", {7.0}}, {"g", {1.0}}};  // too little in common
  const auto seconds = on_one_scale({slow, large, apart});
  EXPECT_DOUBLE_EQ(seconds.at("a"), 2.0);  // the first of the largest is the scale
  EXPECT_NEAR(seconds.at("b"), 4.0, 1e-9);
  EXPECT_NEAR(seconds.at("d"), 8.0, 0.1);
  EXPECT_NEAR(seconds.at("e"), 12.0, 1e-9);  // what was given up says less
  EXPECT_NEAR(seconds.at("f"), 5.0, 1e-9);
  EXPECT_FALSE(seconds.contains("g"));
  // Measured once alone, and faster than all that was measured twice: luck.
  const auto lucky = on_one_scale(
      {{{"a", {1.0}}, {"b", {2.0}}, {"c", {3.0}}, {"x", {0.1}}}, {{"a", {1.0}}, {"b", {2.0}}, {"c", {3.0}}}});
  EXPECT_NEAR(lucky.at("x"), 1.0, 0.05);
  EXPECT_TRUE(on_one_scale({{}}).empty());
}

TEST(SearchFigures, StrategiesAreHeldAgainstRandomSearchOfTheirOwnSpace) {
  EXPECT_EQ(random_of("fettle"), "random");
  EXPECT_EQ(random_of("autotvm"), "template:random");
  EXPECT_EQ(random_of("ansor"), "drawn-sketches:random");
  EXPECT_EQ(random_of("metaschedule"), "metaschedule:random");
  EXPECT_EQ(random_of("rules:annealing"), "random");
  EXPECT_EQ(random_of("random"), "");
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

TEST(Ranking, CountsPairsAndWhatIsFound) {
  std::vector<double> seconds, exact, backwards;
  for (int i = 1; i <= 40; ++i) {
    seconds.push_back(i);
    exact.push_back(2.0 * i);
    backwards.push_back(-i);
  }
  const Ranking right = rank(exact, seconds), wrong = rank(backwards, seconds);
  EXPECT_DOUBLE_EQ(right.accuracy, 1);
  EXPECT_DOUBLE_EQ(right.recall, 1);
  EXPECT_DOUBLE_EQ(right.regret, 0);
  EXPECT_DOUBLE_EQ(wrong.accuracy, 0);
  EXPECT_DOUBLE_EQ(wrong.recall, 0);
  EXPECT_DOUBLE_EQ(wrong.regret, 32);  // the 33rd of 40 instead of the first
  EXPECT_TRUE(std::isnan(rank({1, 2}, {1, 1}).accuracy));
}

// Searches whose candidates take as much longer than predicted as their feature 2 says; machines and tasks by factors.
std::vector<MeasuredSearch> made_up_searches() {
  RandomStream stream{3};
  std::vector<MeasuredSearch> searches;
  for (int task = 0; task < 20; ++task) {
    MeasuredSearch& search = searches.emplace_back();
    search.task = fmt::format("task {}", task);
    search.family = task % 2 == 0 ? "even" : "odd";
    search.mode = "random-1";
    search.machine = task % 4 < 2 ? "one" : "another";
    for (int i = 0; i < 40; ++i) {
      std::vector<float>& features = search.features.emplace_back(feature_names().size(), 1.0f);
      for (float& value : features) value = static_cast<float>(stream.uniform());
      search.decisions.emplace_back();
      search.predicted_s.push_back(1e-3 * (1 + stream.uniform()));
      search.seconds.push_back((1 + task) * search.predicted_s.back() * (features[2] < 0.5 ? 1 : 1.8));
    }
  }
  return searches;
}

TEST(Learning, FindsWhatThePredictionMissesWhicheverTaskItIs) {
  const std::vector<MeasuredSearch> searches = made_up_searches();
  std::vector<const MeasuredSearch*> all;
  for (const MeasuredSearch& search : searches) all.push_back(&search);
  const std::vector<CorrectionTree> trees = train_correction(all);
  ASSERT_FALSE(trees.empty());
  std::vector<float> fast(feature_names().size(), 0.5f), slow = fast;
  fast[2] = 0.1f;
  slow[2] = 0.9f;
  EXPECT_NEAR(sum_of_trees(trees, slow) - sum_of_trees(trees, fast), std::log(1.8), 0.1);
  Report report("learning");
  add_rankings(report, searches);
  const auto rows = nlohmann::json::parse(report.json());
  std::map<std::string, double> pairs;
  for (const auto& row : rows)
    if (const std::string what = row.at("what"); what.starts_with("one") && what.ends_with("pairs in the right order"))
      pairs[what.substr(what.find("),") + 3)] = row.at("value");
  ASSERT_EQ(pairs.size(), 4u);
  for (const auto& [way, share] : pairs) EXPECT_GT(share, way.starts_with("prediction alone") ? 50 : 90) << way;
}

TEST(Learning, RowsAndTreesAreWrittenAndRead) {
  const std::filesystem::path folder = ::testing::TempDir();
  const std::vector<MeasuredSearch> searches = made_up_searches();
  const std::string rows = (folder / "one.jsonl").string();
  ASSERT_TRUE(write_rows(searches, rows));
  const auto read = read_rows(rows);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), searches.size());
  EXPECT_EQ((*read)[3].features, searches[3].features);
  EXPECT_EQ((*read)[3].seconds, searches[3].seconds);
  EXPECT_EQ((*read)[3].machine, "one");
  std::ofstream(rows, std::ios::app) << "{\"task\": 1}\n";
  const auto damaged = read_rows(rows);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::E503);
  EXPECT_NE(damaged.error().to_string().find("line 801"), std::string::npos) << damaged.error().to_string();
  EXPECT_FALSE(read_rows((folder / "none").string()));
  const std::string written = (folder / "trees.txt").string();
  ASSERT_TRUE(write_correction({CorrectionTree{}}, written));
  std::ifstream file(written);
  const auto trees = parse_correction(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(trees.has_value());
  EXPECT_EQ(trees->trees.size(), 1u);
}

TEST(SearchTasks, CoverTheFamiliesAndHalfAreOdd) {
  std::set<std::string> families;
  int odd = 0;
  for (const SearchTask& task : search_tasks()) {
    families.insert(task.family);
    odd += task.odd ? 1 : 0;
  }
  EXPECT_GE(search_tasks().size(), 20u);
  EXPECT_GE(2 * odd, static_cast<int>(search_tasks().size()) - 1);
  for (const char* family : {"matmul", "batched matmul", "conv", "conv1x1", "grouped conv", "depthwise", "pool",
                             "softmax", "layer norm", "attention", "elementwise"})
    EXPECT_TRUE(families.contains(family)) << family;
  for (const SearchTask& task : training_tasks())
    for (const SearchTask& other : search_tasks()) EXPECT_NE(task.name, other.name);
}

TEST(SearchModes, AreFoundAndMakePoints) {
  EXPECT_FALSE(find_mode("nothing"));
  EXPECT_FALSE(find_mode("nothing:random"));
  EXPECT_FALSE(find_mode("template:annealing:nothing"));
  ASSERT_TRUE(find_mode("drawn-sketches:random"));
  ASSERT_TRUE(find_mode("sketches:random"));
  EXPECT_EQ(find_mode("sketches:random")->cost_model, "trees");
  EXPECT_TRUE(find_mode("fettle")->from_default);
  EXPECT_TRUE(find_mode("rules:random")->from_default);
  for (const char* blind : {"random", "autotvm", "sketches:random"}) EXPECT_FALSE(find_mode(blind)->from_default);
  EXPECT_EQ(find_mode("sketches:ansor")->cost_model, "statements_residual");
  EXPECT_EQ(find_mode("template:annealing:autotvm_knob")->cost_model, "autotvm_knob");
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  for (const SearchMode& mode : search_modes()) {
    EXPECT_NE(find_strategy(mode.strategy), nullptr) << mode.name;
    EXPECT_NE(find_cost_model(mode.cost_model), nullptr) << mode.name;
    const auto space = make_space(mode.space);
    for (const SearchTask& task : search_tasks()) {
      if (task.family == "attention")
        continue;  // the slowest to derive
                   // Of a template some configurations have no program.
      bool made = false;
      for (uint64_t seed = 1; seed <= 8 && !made; ++seed)
        made = space->generate(task.program, target, 2, seed, nullptr).has_value();
      EXPECT_TRUE(made) << mode.name << ", " << task.name;
    }
  }
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
  task.modes["fettle"] = {curve({{1, 0.1, 3e-3}, {16, 0.5, 2.01e-3}, {20, 1, 1e-3}}, 64)};
  Report report("test");
  const auto missing = add_figures(report, {task}, {.peak_gflops = 1000});
  const std::string table = report.table();
  EXPECT_NE(
      table.find(
          "fettle: share of trials to the best 256-trial result of the three, within 1 %, geometric mean of 1 tasks"),
      std::string::npos);
  EXPECT_NE(report.json().find("0.0625"), std::string::npos) << report.json();
  EXPECT_NE(report.json().find("0.078125"), std::string::npos) << "to the last digit";
  EXPECT_NE(report.json().find("GEMM 512^3: time to 95 % of peak, fettle"), std::string::npos);
  EXPECT_FALSE(missing.empty());
  EXPECT_EQ(report.json().find("TVM"), std::string::npos);  // not measured: no row
}

TEST(SearchFigures, ASearchThatUsedItsSpaceUpIsComplete) {
  // Of 20 tasks all but one have 1000 trials; that one's space holds 3 programs.
  const auto table = [](bool exhausted, int64_t trials, int64_t short_trials) {
    std::vector<TaskCurves> tasks;
    for (int i = 0; i < 20; ++i) {
      TaskCurves& task = tasks.emplace_back();
      task.name = "task " + std::to_string(i);
      for (const char* mode : {"autotvm", "ansor", "metaschedule"}) {
        Curve c = curve({{1, 1, 2e-3}}, i == 0 ? short_trials : trials);
        c.exhausted = i == 0 && exhausted;
        task.modes[mode] = {c};
      }
      task.modes["fettle"] = {curve({{1, 0.1, 2e-3}}, 64)};
    }
    Report report("test");
    add_figures(report, tasks);
    return report.table();
  };
  const std::string complete = table(true, 1000, 3), cut_short = table(false, 1000, 3);
  const auto row = [](const std::string& text, const std::string& begin) {
    const size_t at = text.find(begin);
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  const std::string bound = ">= 75";
  EXPECT_NE(row(complete, "autotvm, 20 tasks, >= 1000 trials or all programs of 1:").find(bound), std::string::npos)
      << complete;
  EXPECT_NE(row(cut_short, "autotvm, 20 tasks, >= 3 trials:"), "") << cut_short;
  EXPECT_EQ(row(cut_short, "autotvm, 20 tasks, >= 3 trials:").find(bound), std::string::npos);
  EXPECT_NE(complete.find("geometric mean of 20 tasks"), std::string::npos) << complete;
  EXPECT_NE(cut_short.find("geometric mean of 19 tasks"), std::string::npos) << cut_short;
  EXPECT_NE(table(true, 256, 9).find("geometric mean of 20 tasks"), std::string::npos);
  EXPECT_EQ(row(table(true, 256, 9), "autotvm, 20 tasks").find(bound), std::string::npos) << "256 are no 1000";
  EXPECT_FALSE(Curve{.exhausted = true}.holds(1)) << "nothing was measured";
}

}  // namespace
}  // namespace fettle::bench
