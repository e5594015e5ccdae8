// The models that a user can name, on candidates as searches make them. Times are the prediction's, so nothing depends
// on timing; the models do not see it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/random.h"
#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/cost/knob_features.h"
#include "generations/autotvm/cost/loop_features.h"
#include "generations/autotvm/template/template.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/registry.h"
#include "measure/runner.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"
#include "tune/testing.h"

namespace fettle {
namespace {

std::shared_ptr<const Target> cpu() { return std::make_shared<const Target>(*parse_target("x86-64-avx512")); }

Func matmul(int64_t m, int64_t n, int64_t k) { return testing::matmul_workload(m, n, k, false, false, true, false); }

struct Samples {
  std::vector<CandidateFeatures> candidates;
  std::vector<double> seconds;
};

// Distinct configurations of the templates that suit the program; their predictions are hidden from the models.
Samples draw(const Func& func, FeatureKind kind, size_t count, uint64_t seed) {
  const auto target = cpu();
  const DescribeFn describe = describe_row(kind, target, 2);
  Samples samples;
  std::set<DecisionMap> seen;
  for (uint64_t i = 0; samples.seconds.size() < count && i < 20 * count; ++i) {
    const auto schedule =
        templates_space().generate(func, target, 2, seed * 100000 + i, std::make_shared<const DecisionMap>());
    if (!schedule || !seen.insert(schedule->decisions()).second) continue;
    auto described = describe(*schedule);
    if (!described) continue;
    samples.seconds.push_back(described->features.predicted_seconds);
    described->features.predicted_seconds = 1;
    samples.candidates.push_back(std::move(described->features));
  }
  EXPECT_EQ(samples.seconds.size(), count);
  return samples;
}

// The share of pairs whose order is right; of those that differ by a tenth.
double accuracy(CostModel& model, const Samples& samples) {
  const std::vector<double> predicted = model.predict(samples.candidates);
  double right = 0, all = 0;
  for (size_t i = 0; i < predicted.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (std::abs(std::log(samples.seconds[i] / samples.seconds[j])) < 0.1) continue;
      all += 1;
      right += (predicted[i] < predicted[j]) == (samples.seconds[i] < samples.seconds[j]);
    }
  return right / all;
}

TEST(KnobFeatures, OfAConfiguration) {
  const KnobFeatures knobs = knob_features({{"tile_y", {8, 64}}, {"order", "3"}, {"nothing", {}}});
  EXPECT_EQ(knobs.values, (std::vector<float>{3, 8, 64}));
  EXPECT_EQ(knobs.names, (std::vector<std::string>{"order", "tile_y[0]", "tile_y[1]"}));
  EXPECT_EQ(knobs.columns, knob_features({{"tile_y", {1, 2}}, {"order", "9"}}).columns);
  EXPECT_NE(knobs.columns, knob_features({{"tile_y", {1, 2, 4}}, {"order", "9"}}).columns);
  EXPECT_NE(knobs.columns, knob_features({{"tile_y", {1, 2}}, {"other", "9"}}).columns);
  // What is no number by itself.
  EXPECT_EQ(knob_features({{"order", "2,0,-1"}}).values, (std::vector<float>{2, 0, -1}));
  EXPECT_EQ(knob_features({{"tile", "14x2"}}).values, (std::vector<float>{28}));
  EXPECT_EQ(knob_features({{"tile", "7+2x3"}}).values, (std::vector<float>{42}));
  const KnobFeatures notes = knob_features({{"notes", "none,unroll,none"}});
  ASSERT_EQ(notes.values.size(), 3u);
  EXPECT_EQ(notes.values[0], notes.values[2]);
  EXPECT_NE(notes.values[0], notes.values[1]);
  EXPECT_TRUE(knob_features({}).values.empty());
}

TEST(KnobFeatures, OfATemplate) {
  const auto target = cpu();
  const Func func = matmul(64, 96, 32);
  const Template made{"two knobs", [](TemplateContext& t) -> Result<> {
                        FETTLE_TRY(const BlockRef c, get_block(t.schedule(), {"C"}));
                        FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(t.schedule(), {c}));
                        FETTLE_TRY_VOID(t.define_split("tile_y", loops[0], {.n = 2}));
                        FETTLE_TRY_VOID(t.define_knob("step", {0, 16, 512}));
                        return {};
                      }};
  const auto space = config_space(made, func, target);
  ASSERT_OK(space);
  for (int64_t index = 0; index < space->size(); ++index) {
    const Config config = space->at(index).value();
    const auto schedule = apply_template(made, func, *space, config, target);
    ASSERT_OK(schedule);
    const auto description = describe_row(FeatureKind::kKnob, target, 2)(*schedule);
    ASSERT_OK(description);
    const Decision::List& sizes = space->knobs()[0].values[config[0]];
    // By name: step, then tile_y.
    EXPECT_EQ(description->features.rows,
              (std::vector<float>{static_cast<float>(space->knobs()[1].values[config[1]][0]),
                                  static_cast<float>(sizes[0]), static_cast<float>(sizes[1])}));
  }
}

TEST(NamedCostModels, AreDistinctAndFound) {
  std::set<std::string_view> names;
  for (const CostModelDef& def : cost_models()) {
    EXPECT_TRUE(names.insert(def.name).second);
    EXPECT_EQ(find_cost_model(def.name), &def);
    EXPECT_FALSE(def.meaning.empty());
  }
  EXPECT_EQ(find_cost_model("none"), nullptr);
}

// Each asks for what it sees, and nothing that others see.
TEST(NamedCostModels, SeeWhatTheyAskFor) {
  const auto target = cpu();
  const Func func = matmul(64, 96, 32);
  const auto schedule = templates_space().generate(func, target, 2, 1, std::make_shared<const DecisionMap>());
  ASSERT_OK(schedule);
  for (const CostModelDef& def : cost_models()) {
    const auto description = def.describe(target, 2, nullptr)(*schedule);
    ASSERT_OK(description);
    const CandidateFeatures& features = description->features;
    const std::vector<float>& row = features.*def.learns_from;
    EXPECT_FALSE(row.empty()) << def.name;
    for (const float value : row) EXPECT_TRUE(std::isfinite(value)) << def.name;
    if (def.columns) {
      EXPECT_EQ(row.size() % def.columns().size(), 0u) << def.name;
    }
    EXPECT_EQ(features.rows.empty(), def.learns_from != &CandidateFeatures::rows) << def.name;
    if (def.columns && !def.many_rows) {
      EXPECT_EQ(row.size(), def.columns().size()) << def.name;
    }
    // All models take it.
    const auto model = def.make(1);
    EXPECT_OK(model->update(std::span(&features, 1), std::vector{1e-3}));
    EXPECT_TRUE(std::isfinite(model->predict(std::span(&features, 1)).at(0)));
  }
}

TEST(NamedCostModels, RowsAreFiniteOfAllWorkloads) {
  using namespace testing;
  const auto target = cpu();
  for (const Func& func :
       {conv_workload({.h = 13, .w = 11, .ic = 6, .oc = 21, .epilogue = true}),
        conv_workload({.h = 14, .w = 14, .ic = 48, .oc = 48, .groups = 48, .epilogue = true}),
        pool_workload(14, 14, 32, false, true), softmax_workload(48, 33), layer_norm_workload(24, 70)})
    for (const FeatureKind kind : {FeatureKind::kLoop, FeatureKind::kCurve}) {
      int described = 0;
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const auto schedule = rule_space().generate(func, target, 2, seed, std::make_shared<const DecisionMap>());
        if (!schedule) continue;
        const auto description = describe_row(kind, target, 2)(*schedule);
        if (!description) continue;
        ++described;
        EXPECT_EQ(description->features.rows.size(), kind == FeatureKind::kLoop ? kLoopFeatures : kCurveFeatures);
        for (const float value : description->features.rows) EXPECT_TRUE(std::isfinite(value) && value >= 0);
      }
      EXPECT_GT(described, 0) << func->name;
    }
}

class AutotvmModels : public ::testing::TestWithParam<const char*> {
 protected:
  static FeatureKind kind() {
    const std::string name = GetParam();
    return name.starts_with("autotvm_knob")    ? FeatureKind::kKnob
           : name.starts_with("autotvm_curve") ? FeatureKind::kCurve
                                               : FeatureKind::kLoop;
  }
  static std::unique_ptr<CostModel> make() { return find_cost_model(GetParam())->make(1); }
};
INSTANTIATE_TEST_SUITE_P(All, AutotvmModels,
                         ::testing::Values("autotvm_knob", "autotvm_itervar", "autotvm_curve", "autotvm_knob_rank",
                                           "autotvm_itervar_rank", "autotvm_curve_rank"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AutotvmModels, RankCandidatesOfATemplate) {
  const auto model = make();
  const Func func = matmul(128, 192, 64);
  const Samples known = draw(func, kind(), 100, 1), others = draw(func, kind(), 80, 2);
  ASSERT_OK(model->update(known.candidates, known.seconds));
  const double share = accuracy(*model, others);
  RecordProperty("accuracy", std::to_string(share));
  EXPECT_GT(share, 0.8);
}

// Transfer: what was learned of one task ranks another's candidates better than chance, which gets half the pairs.
TEST_P(AutotvmModels, CarryOverToAnotherTask) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fettle_" + std::string(GetParam()) + std::to_string(::getpid())))
          .string();
  const auto model = make(), loaded = make();
  const Samples known = draw(matmul(128, 192, 64), kind(), 100, 1);
  ASSERT_OK(model->update(known.candidates, known.seconds));
  ASSERT_OK(model->save(path));
  ASSERT_OK(loaded->load(path));
  std::filesystem::remove(path);
  const Samples other = draw(matmul(80, 64, 256), kind(), 60, 3);
  const double share = accuracy(*loaded, other);
  RecordProperty("accuracy", std::to_string(share));
  EXPECT_GT(share, 0.65);
}

// Relations between levels say the same of loops of any number and order, so that what was learned of products ranks
// convolutions.
TEST(AutotvmCurves, CarryOverToAnotherOperator) {
  const auto model = make_autotvm_trees(1, FeatureKind::kCurve, Loss::kRank);
  uint64_t seed = 1;
  for (const Func& func : {matmul(128, 192, 64), matmul(80, 64, 256), matmul(196, 128, 32)}) {
    const Samples known = draw(func, FeatureKind::kCurve, 120, seed++);
    ASSERT_OK(model->update(known.candidates, known.seconds));
  }
  for (const testing::ConvSpec& shape : {testing::ConvSpec{.h = 14, .w = 14, .ic = 16, .oc = 32, .epilogue = true},
                                         testing::ConvSpec{.h = 28, .w = 28, .ic = 32, .oc = 16}}) {
    // Of 80 candidates it ranks 65 to 76 % as they are, by which were drawn; of 240, 66 to 75.
    const Samples conv = draw(testing::conv_workload(shape), FeatureKind::kCurve, 240, seed++);
    const double share = accuracy(*model, conv);
    RecordProperty("accuracy" + std::to_string(seed), std::to_string(share));
    EXPECT_GT(share, 0.65);
  }
}

TEST(AutotvmKnobModel, IsRefusedByAnotherOperator) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fettle_knobs_" + std::to_string(::getpid()))).string();
  const auto model = make_autotvm_trees(1, FeatureKind::kKnob), loaded = make_autotvm_trees(1, FeatureKind::kKnob);
  const Samples known = draw(matmul(64, 64, 64), FeatureKind::kKnob, 30, 1);
  ASSERT_OK(model->update(known.candidates, known.seconds));
  ASSERT_OK(model->save(path));
  ASSERT_OK(loaded->load(path));
  std::filesystem::remove(path);
  const Samples other = draw(testing::softmax_workload(48, 33), FeatureKind::kKnob, 8, 3);
  const auto refused = loaded->update(other.candidates, other.seconds);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::E709);
}

}  // namespace
}  // namespace fettle
