#include "harness/core_benchmark.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace fettle::bench {
namespace {

TEST(RelativeDifference, IsOfScale) {
  const std::vector<float> a{1, 2, -8};
  const std::vector<float> b{1, 4, -8};
  EXPECT_DOUBLE_EQ(relative_difference(a, b), 0.25);
  EXPECT_EQ(relative_difference(a, a), 0);
  EXPECT_TRUE(std::isnan(relative_difference(a, std::vector<float>{1})));
  EXPECT_TRUE(std::isnan(
      relative_difference(std::vector<float>{std::numeric_limits<float>::quiet_NaN()}, std::vector<float>{1})));
}

RandomCandidate candidate(double predicted_ns, double true_ns) {
  return {predicted_ns, [=]() -> Result<Kernel> {
            Kernel kernel;
            kernel.contender = {
                .name = "c", .run = {}, .flops = 1, .timed = [=](int) -> Result<double> { return true_ns; }};
            return kernel;
          }};
}

TEST(MeasureRegret, IsZeroForATruePrediction) {
  std::vector<RandomCandidate> candidates;
  for (int i = 0; i < 40; ++i) candidates.push_back(candidate(1000 + i, 2e6 + 1e5 * i));
  PeakMeter peak;
  const auto result = measure_regret(candidates, peak, 0.001);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->regret, 0);
  EXPECT_DOUBLE_EQ(result->correlation, 1);
  EXPECT_EQ(result->measured, 40);
}

TEST(MeasureRegret, IsTheLossAgainstTheBest) {
  // The prediction has the best one last; the best of its five is 1.5 times as slow.
  std::vector<RandomCandidate> candidates;
  for (int i = 0; i < 20; ++i) candidates.push_back(candidate(1000 + i, i == 19 ? 2e6 : 3e6 + 1e5 * i));
  candidates.push_back({1, []() -> Result<Kernel> { return fail(ErrorCode::E401, "no"); }});
  PeakMeter peak;
  const auto result = measure_regret(candidates, peak, 0.001);
  ASSERT_TRUE(result);
  EXPECT_DOUBLE_EQ(result->regret, 0.5);
  EXPECT_LT(result->correlation, 1);
  EXPECT_EQ(result->measured, 20);
}

PairedResult rounds_of(const std::vector<std::vector<double>>& times_ns) {
  PairedResult timed;
  timed.names.resize(times_ns.front().size(), "c");
  for (const auto& times : times_ns) timed.rounds.push_back({.time_ns = times, .lowest_peak = 1});
  return timed;
}

TEST(LossOfChoosing, TheLuckiestIsNotTheBest) {
  // All are alike but for luck that changes with every round: one of the two that were not chosen has the best median.
  const PairedResult luck =
      rounds_of({{100, 90, 101}, {100, 112, 101}, {100, 90, 101}, {100, 112, 101}, {100, 91, 101}, {100, 111, 101}});
  const std::array<bool, 3> first{true, false, false};
  EXPECT_LE(loss_of_choosing(luck, first), 0);
  // What is better in all rounds counts in full.
  const PairedResult better = rounds_of({{100, 80, 101}, {110, 88, 111}, {100, 80, 101}, {90, 72, 91}});
  EXPECT_DOUBLE_EQ(loss_of_choosing(better, first), 0.25);
  const std::array<bool, 3> second{false, true, false};
  EXPECT_EQ(loss_of_choosing(better, second), 0);
}

TEST(MeasureRegret, NothingToMeasureIsAnError) {
  PeakMeter peak;
  EXPECT_FALSE(measure_regret({}, peak, 1));
  const auto result = measure_regret({{1, []() -> Result<Kernel> { return fail(ErrorCode::E401, "no"); }}}, peak, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::E401);
}

/// oneDNN in the subject's place; `spoil` is added to its first result.
Result<Kernel> peer_kernel(const Shape& shape, int threads, float spoil) {
  FETTLE_TRY(OnednnOp made,
             shape.matmul ? OnednnOp::matmul(*shape.matmul, threads) : OnednnOp::convolution(*shape.conv, threads));
  auto op = std::make_shared<OnednnOp>(std::move(made));
  Kernel kernel;
  kernel.contender = {.name = "x", .run = [op] { op->run(); }, .flops = op->flops()};
  kernel.load = [op](std::span<const float> source, std::span<const float> weights) { op->load(source, weights, {}); };
  kernel.store = [op, spoil](std::span<float> destination) {
    op->store(destination);
    destination[0] += spoil;
  };
  return kernel;
}

nlohmann::json find(const nlohmann::json& rows, const std::string& what, const std::string& unit) {
  for (const auto& row : rows) {
    if (row["what"] == what && row["unit"] == unit) return row;
  }
  return {};
}

TEST(CoreBenchmark, ReportsWhatTheSubjectHas) {
  CoreSubject subject;
  subject.hand = [](const Shape& shape, int threads) { return peer_kernel(shape, threads, 0); };
  subject.untuned = [](const Shape& shape, int threads) { return peer_kernel(shape, threads, 1e3F); };  // wrong
  subject.compile = [n = 0](const Shape&) mutable -> Result<CompileTimes> {
    ++n;
    return CompileTimes{.nest_ms = 1.0 * n, .micro_kernel_ms = {2, 1.0 + n}};
  };
  subject.measure_micro_kernels = []() -> Result<double> { return fail(ErrorCode::E406, "no worker"); };
  const Report report = run_core_benchmark(subject, {.only = "conv 3x3 7^2", .timing_s = 0.01, .progress = false});
  const auto rows = nlohmann::json::parse(report.json());
  const std::string name = "conv 3x3 7^2 512->512";
  EXPECT_GT(find(rows, name + ", hand trace", "of oneDNN")["value"], 0);
  EXPECT_EQ(find(rows, name + ", hand trace", "of oneDNN")["bound"], ">= 0.98");
  EXPECT_TRUE(find(rows, name + ", hand trace", "% of peak")["bound"].is_null());
  EXPECT_TRUE(find(rows, name + ", default", "% of hand trace")["value"].is_null());
  EXPECT_EQ(find(rows, name + ", default", "% of hand trace")["holds"], false);
  EXPECT_EQ(find(rows, name + ", compile of the nest", "ms")["value"], 3);
  EXPECT_EQ(find(rows, name + ", compile of the slowest micro-kernel", "ms")["value"], 4);
  EXPECT_TRUE(find(rows, "measuring the micro-kernel table", "s")["value"].is_null());
  EXPECT_TRUE(find(rows, name + ", tuned", "% of hand trace").is_null());
  EXPECT_FALSE(report.all_hold());
}

}  // namespace
}  // namespace fettle::bench
