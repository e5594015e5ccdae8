// What candidates cost, read with their loops still to be unrolled, is what is read with everything spelled out.

#include "tune/describe.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "cost/predict/predict.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "ir/canonical.h"
#include "lower/lower.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::NamedWorkload;

std::vector<NamedWorkload> workloads() {
  using namespace testing;
  return {
      {"matmul", matmul_workload(128, 96, 64, false, false, true, false)},
      {"odd matmul with an epilogue", matmul_workload(197, 77, 120, false, false, true, true)},
      {"transposed matmul", matmul_workload(45, 100, 64, false, true, false, false)},
      {"batched matmul", batched_matmul_workload(4, 48, 64, 40, true)},
      {"conv", conv_workload({.h = 14, .w = 14, .ic = 16, .oc = 32, .epilogue = true})},
      {"odd conv", conv_workload({.h = 13, .w = 11, .ic = 6, .oc = 21, .epilogue = true})},
      {"strided conv", conv_workload({.h = 28, .w = 28, .ic = 16, .oc = 24, .stride = 2, .epilogue = true})},
      {"depthwise conv", conv_workload({.h = 14, .w = 14, .ic = 48, .oc = 48, .groups = 48, .epilogue = true})},
      {"pool", pool_workload(14, 14, 32, false, true)},
      {"softmax", softmax_workload(48, 33)},
      {"layer norm", layer_norm_workload(24, 70)},
      {"transpose", transpose_workload(3, 37, 50)},
  };
}

class Described : public ::testing::TestWithParam<const char*> {};

TEST_P(Described, AsIfSpelledOut) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto sketches = make_sketch_space();
  for (const Space* space : {&rule_space(), static_cast<const Space*>(sketches.get())})
    for (const auto& [name, func] : workloads()) {
      if (name != GetParam()) continue;
      // Sketches also make padding inside of register tiles: selections that unrolled loops decide are none once
      // spelled out, and one each as the loops stand.
      const double tolerance = space == &rule_space() ? 1e-5 : 0.03;
      int compared = 0;
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const auto schedule = space->generate(func, target, 2, seed, std::make_shared<const DecisionMap>());
        if (!schedule) continue;
        const auto spelled_out = lower(schedule->func(), *target, {.prologue = false});
        const auto compact = lower(schedule->func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
        ASSERT_EQ(spelled_out.has_value(), compact.has_value());
        if (!compact) continue;
        const CandidateFeatures a = extract_features(*spelled_out, *target, 2, nullptr);
        const CandidateFeatures b = extract_features(*compact, *target, 2, nullptr);
        ++compared;
        for (size_t i = 0; i < a.values.size(); ++i)
          EXPECT_NEAR(a.values[i], b.values[i], tolerance * std::abs(a.values[i]))
              << space->name() << " " << seed << " " << feature_names()[i];
      }
      EXPECT_GT(compared, 6);
    }
}

INSTANTIATE_TEST_SUITE_P(Workloads, Described,
                         ::testing::Values("matmul", "odd matmul with an epilogue", "transposed matmul",
                                           "batched matmul", "conv", "odd conv", "strided conv", "depthwise conv",
                                           "pool", "softmax", "layer norm"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// Lowered with and without micro-kernels at once, a candidate's statements are those of two lowerings; and they are the
// same where nobody asks for a prediction.
TEST(DescribedStatements, AreThoseOfTheWholeKernel) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto sketches = make_sketch_space();
  const DescribeFn describe = describe_statements(target, 2), unpredicted = describe_only_statements(target, 2);
  for (const auto& [name, func] : workloads()) {
    int compared = 0;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto schedule = sketches->generate(func, target, 2, seed, std::make_shared<const DecisionMap>());
      if (!schedule) continue;
      const auto apart = lower(schedule->func(), *target, {.pipeline = Pipeline::kUnexpandedWhole, .prologue = false});
      const auto both =
          lower(schedule->func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = true});
      ASSERT_EQ(apart.has_value(), both.has_value());
      if (!both) continue;
      ++compared;
      EXPECT_EQ(canonical_bytes(both->whole), canonical_bytes(apart->kernel.funcs.at(apart->kernel.entry))) << name;
      const auto all = describe(*schedule), some = unpredicted(*schedule),
                 plain = describe_by_lowering(target, 2)(*schedule);
      ASSERT_TRUE(all && some && plain);
      EXPECT_EQ(all->features.rows, store_features(apart->kernel.funcs.at(apart->kernel.entry)));
      EXPECT_EQ(all->features.values, plain->features.values);
      EXPECT_EQ(all->features.predicted_seconds, plain->features.predicted_seconds);
      EXPECT_EQ(canonical_bytes(all->timed), canonical_bytes(plain->timed));
      EXPECT_EQ(some->features.rows, all->features.rows);
      EXPECT_EQ(some->features.workload, all->features.workload);
      EXPECT_EQ(canonical_bytes(some->timed), canonical_bytes(all->timed));
      EXPECT_TRUE(some->features.values.empty());
    }
    EXPECT_GT(compared, 3) << name;
  }
}

}  // namespace
}  // namespace fettle
