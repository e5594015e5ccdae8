// Rows of a softmax that hold NaN or infinities, in compiled points of every space: as numpy and ONNX Runtime have
// them, whichever way the row's maximum is taken.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "generations/ansor/sketch/sketch_space.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/metaschedule/presets.h"
#include "measure/local_kernel.h"
#include "schedule/testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using Rows = std::vector<std::vector<float>>;

/// So many rows, each of its own kind; those of numbers in between.
Rows some_rows(size_t count, size_t n) {
  Rows rows(count, std::vector<float>(n));
  for (size_t r = 0; r < count; ++r) {
    std::vector<float>& row = rows[r];
    for (size_t i = 0; i < n; ++i) row[i] = static_cast<float>((i * 37 + r * 11) % 23) * 0.5f - 6.0f;
    if (r == 0) row[n - 1] = NAN;
    if (r == 1) row[0] = row[n / 2] = NAN;
    if (r == 2) std::ranges::fill(row, NAN);
    if (r == 3) row[n / 3] = INFINITY;
    if (r == 4) std::ranges::fill(row, -INFINITY);
    if (r == 5) row[0] = row[n - 2] = -INFINITY;
    if (r == 6) row[1] = INFINITY, row[n - 3] = NAN;
    if (r == 7) std::fill(row.begin(), row.end() - 1, -INFINITY);
    if (r == 8) std::ranges::fill(row, -INFINITY), row[n / 2] = NAN;
  }
  return rows;
}

/// exp(x - max x) over its sum, where max passes NaN on.
std::vector<double> softmax_of(const std::vector<float>& row) {
  double most = -HUGE_VAL;
  for (const float x : row) most = std::isnan(most) || std::isnan(x) ? NAN : std::max<double>(most, x);
  std::vector<double> y;
  for (const float x : row) y.push_back(std::exp(x - most));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& value : y) value /= sum;
  return y;
}

constexpr size_t kRows = 11;
struct Case {
  Func func;
  size_t n;
  bool is_middle;  // rows lie side by side
};
std::vector<Case> cases() {
  constexpr auto kCount = static_cast<int64_t>(kRows);
  return {{testing::softmax_workload(kCount, 37), 37, false},
          {testing::softmax_workload(kCount, 128), 128, false},
          {testing::softmax_middle_workload(1, 20, kCount), 20, true}};
}

void expect_rows(const Case& c, const Func& scheduled, const Target& target, const std::string& what) {
  auto kernel = LocalKernel::build(scheduled, target);
  ASSERT_OK(kernel) << what;
  const Rows rows = some_rows(kRows, c.n);
  const auto place = [&](size_t r, size_t i) { return c.is_middle ? i * kRows + r : r * c.n + i; };
  std::vector<float> x(kRows * c.n);
  for (size_t r = 0; r < kRows; ++r)
    for (size_t i = 0; i < c.n; ++i) x[place(r, i)] = rows[r][i];
  kernel->set_logical<float>(0, x);
  ASSERT_OK(kernel->run());
  const std::vector<float> y = kernel->logical<float>(1);
  for (size_t r = 0; r < kRows; ++r) {
    const std::vector<double> expected = softmax_of(rows[r]);
    for (size_t i = 0; i < c.n; ++i) {
      const float actual = y[place(r, i)];
      if (std::isnan(expected[i]))
        ASSERT_TRUE(std::isnan(actual)) << actual << " at " << i << " of row " << r << "\n" << what;
      else
        ASSERT_NEAR(actual, expected[i], 1e-5) << i << " of row " << r << "\n" << what;
    }
  }
}

std::vector<std::shared_ptr<const Target>> targets() {
  std::vector<std::shared_ptr<const Target>> known;
  const Target host = detect_host(1);
  for (const auto& [feature, name] : {std::pair{"avx2", "x86-64-avx2"}, {"avx512f", "x86-64-avx512"}})
    if (host.has_feature(feature)) known.push_back(std::make_shared<const Target>(parse_target(name).value()));
  if (known.empty()) known.push_back(std::make_shared<const Target>(host));
  return known;
}

TEST(NanRows, SoftmaxOfTheDefault) {
  for (const Case& c : cases())
    for (const auto& target : targets()) {
      const auto s = default_schedule(c.func, target, 1);
      ASSERT_OK(s);
      expect_rows(c, s->func(), *target, to_text(s->trace()));
    }
}

void expect_points(const Space& space, const Case& c, uint64_t points) {
  for (const auto& target : targets())
    for (uint64_t seed = 0; seed < points; ++seed) {
      const auto s = space.generate(c.func, target, 1, seed, nullptr);
      ASSERT_OK(s);
      expect_rows(c, s->func(), *target, to_text(s->trace()));
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(NanRows, SoftmaxOfRules) {
  for (const Case& c : cases()) expect_points(rule_space(), c, 3);
}

TEST(NanRows, SoftmaxOfTemplates) {
  for (const Case& c : cases())
    for (const TemplateDef* def : templates_for(c.func)) expect_points(*template_space(as_template(*def)), c, 3);
}

TEST(NanRows, SoftmaxOfSketches) {
  for (const Case& c : cases()) expect_points(*make_sketch_space(), c, 3);
}

TEST(NanRows, SoftmaxOfMetaSchedule) {
  for (const Case& c : cases()) expect_points(*make_metaschedule_space(), c, 2);
}

}  // namespace
}  // namespace fettle
