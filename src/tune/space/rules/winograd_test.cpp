#include "tune/parts/winograd.h"

#include "schedule/reformulation.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
using testing::expect_same;

// A convolution, a bias, what a shortcut brings, relu.
Func residual_convolution(int64_t h, int64_t w, int64_t ic, int64_t oc) {
  const te::Tensor x = te::placeholder({2, h, w, ic}, kF32, "X"), weights = te::placeholder({3, 3, ic, oc}, kF32, "W"),
                   bias = te::placeholder({oc}, kF32, "bias"), shortcut = te::placeholder({2, h, w, oc}, kF32, "S");
  const te::Tensor padded = te::pad(x, {0, 1, 1, 0}, {0, 1, 1, 0}, float_imm(0), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw"), c = te::reduce_axis(ic, "ic");
  const te::Tensor o = te::compute(
      {2, h, w, oc},
      [&](const std::vector<Var>& i) {
        return te::sum(padded(i[0], i[1] + kh, i[2] + kw, c) * weights(kh, kw, c, i[3]), {kh, kw, c});
      },
      "O");
  const te::Tensor added =
      te::compute(o.shape(), [&](const std::vector<Var>& i) { return o(i) + bias(i[3]) + shortcut(i); }, "added");
  const te::Tensor y =
      te::compute(o.shape(), [&](const std::vector<Var>& i) { return max(added(i), float_imm(0)); }, "Y");
  return te::create_func("conv_add_relu", {x, weights, bias, shortcut}, {y},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}});
}

Result<Schedule> by_winograd(const Func& workload, int64_t outputs, int64_t strip, int threads, uint64_t seed) {
  DecisionMap decisions = {{"winograd/O/outputs", std::to_string(outputs)},
                           {"winograd/O/strip", std::to_string(strip)}};
  return rule_space().generate(workload, avx512(), threads, seed, std::make_shared<const DecisionMap>(decisions));
}

TEST(WinogradRule, KeepsTheMeaning) {
  const std::vector<Func> workloads = {
      testing::conv_workload({.h = 9, .w = 10, .ic = 16, .oc = 20, .epilogue = true}),
      testing::conv_workload({.h = 8, .w = 8, .ic = 20, .oc = 16}),
      testing::conv_workload({.h = 7, .w = 12, .ic = 17, .oc = 33, .padding = 0, .epilogue = true}),
      residual_convolution(8, 5, 16, 18)};
  for (const Func& workload : workloads)
    for (int64_t outputs : {2, 4})
      for (int64_t strip : {0, 1, 2}) {
        const int threads = 1 + static_cast<int>(strip % 2);
        const auto s = by_winograd(workload, outputs, strip, threads, static_cast<uint64_t>(5 * outputs + strip));
        ASSERT_OK(s);
        EXPECT_EQ(numerics_of(s->func()), Numerics::kApproximate);
        EXPECT_GT(error_bound_of(s->func()), 200);
        EXPECT_NE(choices(*s).find("register_tiling/O_product/tile"), std::string::npos);
        expect_same(workload, *s);
        if (HasFatalFailure()) return;
      }
}

TEST(WinogradRule, WorksInStripsWithPackedWeights) {
  const auto s =
      by_winograd(testing::conv_workload({.h = 28, .w = 28, .ic = 64, .oc = 64, .epilogue = true}), 4, 1, 2, 1);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
  // What depends on the weights alone is done when the program is compiled.
  const auto lowered = lower(s->func(), *avx512());
  ASSERT_OK(lowered);
  EXPECT_FALSE(lowered->prologue.entry.empty());
}

TEST(WinogradRule, FitsTheRegistersOfOtherTargets) {
  const Func workload = testing::conv_workload({.h = 9, .w = 12, .ic = 20, .oc = 24, .epilogue = true});
  for (const char* name : {"x86-64-avx2", "aarch64-neon"}) {
    const auto target = std::make_shared<const Target>(parse_target(name).value());
    for (const char* outputs : {"2", "4"}) {
      const DecisionMap decisions = {{"winograd/O/outputs", outputs}};
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const auto s = rule_space().generate(workload, target, 2, seed, std::make_shared<const DecisionMap>(decisions));
        ASSERT_OK(s);
        EXPECT_OK(verify(s->func(), *target));
        EXPECT_OK(lower(s->func(), *target));
      }
    }
  }
}

TEST(WinogradRule, IsTheDefaultWhereItPays) {
  const auto chosen = [](const testing::ConvSpec& spec, double max_error_bound) {
    const auto s = default_schedule(testing::conv_workload(spec), avx512(), 2, nullptr, max_error_bound);
    EXPECT_TRUE(s.has_value());
    EXPECT_LE(error_bound_of(s->func()), max_error_bound);
    const std::string text = choices(*s), name = "winograd/O/outputs: ";
    const size_t at = text.find(name);
    return at == std::string::npos ? std::string("none") : text.substr(at + name.size(), 1);
  };
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const testing::ConvSpec large = {.h = 28, .w = 28, .ic = 64, .oc = 64};
  EXPECT_EQ(chosen(large, kAny), "4");  // F(4x4)
  // Transformed weights of 37 MB for 4 tiles.
  EXPECT_EQ(chosen({.h = 7, .w = 7, .ic = 512, .oc = 512}, kAny), "0");
  // Nothing else is left to be chosen.
  EXPECT_EQ(chosen(large, 0), "none");
}

TEST(WinogradRule, IsOfferedForNothingElse) {
  const testing::ConvSpec fits = {.h = 8, .w = 8, .ic = 16, .oc = 16};
  std::vector<testing::ConvSpec> specs(8, fits);
  specs[0].stride = 2;
  specs[1].dilation = 2;
  specs[2].groups = 2;
  specs[3].kernel = 5;
  specs[4].kernel = 1;
  specs[5].ic = 8;
  specs[6].oc = 8;
  specs[7].h = 3;
  EXPECT_NE(choices(*default_schedule(testing::conv_workload(fits), avx512(), 1)).find("winograd/"), std::string::npos);
  for (const testing::ConvSpec& spec : specs)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const auto s = rule_space().generate(testing::conv_workload(spec), avx512(), 1, seed, nullptr);
      ASSERT_OK(s);
      EXPECT_EQ(choices(*s).find("winograd/"), std::string::npos) << choices(*s);
    }
}

TEST(WinogradRule, DoesFewerMultiplications) {
  const double no_limit = std::numeric_limits<double>::infinity();
  const auto share = [](const testing::ConvSpec& conv, double bound) {
    return least_share_of_products(testing::conv_workload(conv), bound);
  };
  EXPECT_EQ(share({.h = 12, .w = 12, .ic = 32, .oc = 32}, no_limit), 0.25);
  EXPECT_EQ(share({.h = 12, .w = 12, .ic = 32, .oc = 32}, 100), 1);
  EXPECT_EQ(share({.h = 12, .w = 12, .ic = 32, .oc = 32, .stride = 2}, no_limit), 1);
  EXPECT_EQ(least_share_of_products(testing::matmul_workload(19, 37, 11, false, false, true, false), no_limit), 1);
}

TEST(WinogradRule, MayBeRefusedByItsBound) {
  const Func workload = testing::conv_workload({.h = 8, .w = 8, .ic = 16, .oc = 16});
  const double bounds[] = {error_bound_of(by_winograd(workload, 2, 0, 1, 1)->func()),
                           error_bound_of(by_winograd(workload, 4, 0, 1, 1)->func())};
  EXPECT_LT(bounds[0], bounds[1]);
  // 2 x 2 outputs still fit, 4 x 4 do not.
  const auto some = within_error_bound(rule_space(), bounds[0]), none = within_error_bound(rule_space(), 100);
  int chosen = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto a = some->generate(workload, avx512(), 1, seed, nullptr);
    const auto b = none->clone()->generate(workload, avx512(), 1, seed, nullptr);
    ASSERT_OK(a);
    ASSERT_OK(b);
    EXPECT_LE(error_bound_of(a->func()), bounds[0]);
    chosen += error_bound_of(a->func()) > 0;
    EXPECT_EQ(error_bound_of(b->func()), 0);
    EXPECT_EQ(choices(*b).find("winograd/"), std::string::npos);
  }
  EXPECT_GT(chosen, 0);
  EXPECT_LT(chosen, 40);
}

}  // namespace
}  // namespace fettle
