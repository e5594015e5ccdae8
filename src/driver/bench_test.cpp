#include "driver/bench.h"

#include <gtest/gtest.h>

#include "rt/model.h"

namespace fettle {
namespace {

/// A model of x[N, 3], of which no more is asked than what it takes.
Model open_model() {
  static constexpr int64_t kShape[] = {-1, 3};
  static const char* const names[] = {"N", nullptr};
  static FettleTensor x;
  x.struct_bytes = sizeof x;
  x.name = "x";
  x.dtype = FETTLE_F32;
  x.rank = 2;
  x.shape = kShape;
  x.axis_names = names;
  auto info = std::make_shared<FettleModelInfo>();
  info->magic = FETTLE_MAGIC;
  info->abi_version = FETTLE_ABI_VERSION;
  info->struct_bytes = sizeof *info;
  info->name = "open";
  info->target_features = "";
  info->inputs = &x;
  info->n_inputs = info->n_sizes = 1;
  info->functions = &fettle_rt_functions;
  return std::move(*Model::make(info));
}

TEST(RandomInputs, HaveTheShapesGivenWhereTheModelLeavesThemOpen) {
  const Model model = open_model();
  const auto inputs = random_inputs(model, 1, {{"x", {2, 3}}});
  ASSERT_TRUE(inputs) << inputs.error().to_string();
  EXPECT_EQ((*inputs)[0].tensor.shape(), (std::vector<int64_t>{2, 3}));

  const auto refused = [&](const InputShapes& shapes, ErrorCode code, const char* text) {
    const auto made = random_inputs(model, 1, shapes);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, code);
    EXPECT_EQ(made.error().message, text);
  };
  refused({}, ErrorCode::E604, "input 'x' is f32[N, 3]");
  refused({{"x", {2, 4}}}, ErrorCode::E705, "input 'x' is f32[N, 3], and the shape given is [2, 4]");
  refused({{"x", {6}}}, ErrorCode::E705, "input 'x' is f32[N, 3], and the shape given is [6]");
  refused({{"x", {-1, 3}}}, ErrorCode::E705, "input 'x' is f32[N, 3], and the shape given is [-1, 3]");
  refused({{"x", {2, 3}}, {"z", {1}}}, ErrorCode::E704, "the model has no input 'z'");
}

}  // namespace
}  // namespace fettle
