#include "tune/parts/split_product.h"

#include <cmath>
#include <limits>
#include <random>

#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "schedule/reformulation.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::choices;

std::shared_ptr<const Target> amx() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-amx").value());
  return target;
}
bool host_has_unit() { return detect_host(1).has_feature("amx-bf16"); }

Result<Schedule> in_parts(const Func& workload, int64_t terms, int threads = 1) {
  const auto product = splittable_product(workload, *amx());
  if (!product) return fail(ErrorCode::E230, "no product to split");
  const DecisionMap decisions = {{"split_product/" + *product + "/terms", std::to_string(terms)},
                                 {"winograd/" + *product + "/outputs", "0"}};
  return rule_space().generate(workload, amx(), threads, 1, std::make_shared<const DecisionMap>(decisions));
}

using Values = std::vector<std::vector<float>>;

Values random_values(const Func& func) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Values values;
  for (const Param& param : func->params) {
    values.emplace_back(static_cast<size_t>(testing::elements(*param.buffer)));
    for (float& x : values.back()) x = normal(random);
  }
  return values;
}

std::vector<float> run(const Func& scheduled, const Target& target, const Values& values, int threads, bool plain) {
  auto kernel = LocalKernel::build(scheduled, target, {.threads = threads, .plain = plain});
  EXPECT_TRUE(kernel) << (kernel ? "" : testing::error_text(kernel.error()));
  if (!kernel) return {};
  const int output = kernel->n_params() - 1;
  for (int p = 0; p < output; ++p) kernel->set_logical(p, std::span<const float>(values[static_cast<size_t>(p)]));
  EXPECT_OK(kernel->run_prologue());
  EXPECT_OK(kernel->run());
  return kernel->logical<float>(output);
}

// By the machine, against the program as it was written.
void expect_runs_the_same(const Func& workload, const Schedule& s, int threads, double tolerance) {
  if (!host_has_unit()) return;
  const Values values = random_values(workload);
  const std::vector<float> expected = run(workload, *amx(), values, 1, true),
                           computed = run(s.func(), *amx(), values, threads, false);
  float scale = 0;
  for (const float x : expected) scale = std::max(scale, std::abs(x));
  ASSERT_EQ(expected.size(), computed.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected[i], computed[i], tolerance * scale) << i << "\n" << to_text(s.trace());
}

TEST(SplitProductRule, KeepsTheMeaning) {
  const std::vector<Func> workloads = {
      testing::matmul_workload(64, 32, 40, false, false, true, true),
      testing::matmul_workload(37, 50, 70, false, false, true, false),
      testing::matmul_workload(33, 47, 65, false, true, true, true),
      testing::matmul_workload(20, 33, 40, true, false, true, false),
      testing::matmul_workload(17, 20, 600, false, false, true, true),
      testing::conv_workload({.h = 3, .w = 9, .ic = 32, .oc = 32, .epilogue = true}),
      testing::conv_workload({.h = 9, .w = 18, .ic = 20, .oc = 16, .stride = 2}),
      testing::conv_workload({.n = 2, .h = 2, .w = 17, .ic = 33, .oc = 40, .kernel = 1, .padding = 0})};
  for (const Func& workload : workloads)
    for (const int64_t terms : {6, 3}) {
      const int threads = terms == 6 ? 1 : 2;
      const auto s = in_parts(workload, terms, threads);
      ASSERT_OK(s);
      ASSERT_NE(to_text(s->func()).find("tensorize = \"amx_bf16\""), std::string::npos) << to_text(s->func());
      EXPECT_OK(verify(s->func(), *amx()));
      if (terms == 6) {
        EXPECT_TRUE(testing::same_result(workload, s->func()));
      }
      const auto lowered = lower(s->func(), *amx());
      ASSERT_OK(lowered);
      EXPECT_FALSE(lowered->prologue.entry.empty());
      expect_runs_the_same(workload, *s, threads, terms == 6 ? 2e-6 : 2e-5);
      if (HasFatalFailure()) return;
    }
}

// The constructed default has parts where much is multiplied, and where an error of more than none is allowed; three
// products only where so large an error was asked for.
TEST(SplitProductRule, DefaultWherePredictedToPay) {
  const auto terms = [](const Func& workload, double allowed) -> std::string {
    const auto s = default_schedule(workload, amx(), 1, nullptr, allowed);
    if (!s) return testing::error_text(s.error());
    const std::string all = choices(*s);
    const size_t at = all.find("/terms: ");
    return at == std::string::npos ? "" : all.substr(at + 8, 1);
  };
  constexpr double kAnything = std::numeric_limits<double>::infinity();
  const Func large = testing::matmul_workload(128, 3072, 768, false, false, true, false);
  EXPECT_EQ(terms(large, kAnything), "6");
  EXPECT_EQ(terms(large, 400), "3");
  EXPECT_EQ(terms(large, 2), "6");
  for (const double allowed : {0.0, 1.0}) EXPECT_NE(terms(large, allowed), "6");
  EXPECT_NE(terms(testing::matmul_workload(3136, 256, 64, false, false, true, false), kAnything), "6");
  // Of windows, along long rows alone.
  const auto along = [&](int64_t w) {
    const auto shape = testing::conv_workload({.h = 8, .w = w, .ic = 256, .oc = 512, .kernel = 5, .padding = 2});
    return splits_by_default(shape, *amx());
  };
  EXPECT_TRUE(along(508));
  EXPECT_FALSE(along(14));
}

// Rows go through all panels of a sum in blocks whose parts stay in the second-level cache.
TEST(SplitProductRule, RowsInBlocks) {
  const Func large = testing::matmul_workload(2048, 2048, 2048, false, false, true, false);
  const auto whole = in_parts(large, 6);
  ASSERT_OK(whole);
  const std::string text = to_text(whole->func());
  EXPECT_NE(text.find("for i_0_0 in "), std::string::npos) << choices(*whole);
  EXPECT_NE(choices(*whole).find("tiles_at_once"), std::string::npos) << choices(*whole);

  const Func workload = testing::matmul_workload(64, 32, 544, false, false, true, true);
  const std::string block = *splittable_product(workload, *amx());
  const DecisionMap decisions = {{"split_product/" + block + "/terms", "6"},
                                 {"split_product/" + block + "/tiles_at_once", "1"}};
  const auto s = rule_space().generate(workload, amx(), 2, 1, std::make_shared<const DecisionMap>(decisions));
  ASSERT_OK(s);
  EXPECT_NE(choices(*s).find("tiles_at_once: 1"), std::string::npos) << choices(*s);
  EXPECT_TRUE(testing::same_result(workload, s->func()));
  expect_runs_the_same(workload, *s, 2, 2e-6);
}

// Four tiles of sums in registers; each part that is loaded serves several products.
TEST(SplitProductRule, LoadsPartsOnceForTheProductsThatShareThem) {
  const auto s = in_parts(testing::matmul_workload(64, 64, 256, false, false, true, false), 6);
  ASSERT_OK(s);
  const auto lowered = lower(s->func(), *amx());
  ASSERT_OK(lowered);
  const std::string code = to_text(lowered->kernel);
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (size_t at = code.find(what); at != std::string::npos; at = code.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("llvm.x86.tdpbf16ps"), 24) << code;
  EXPECT_EQ(count("llvm.x86.tileloadd64"), 14) << code;
}

TEST(SplitProductRule, OperandsThatCannotBeSplit) {
  if (!host_has_unit()) GTEST_SKIP() << "no unit that multiplies bf16";
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
  const Func workload = testing::matmul_workload(40, 48, 96, false, false, true, false);
  const auto s = in_parts(workload, 6, 2);
  ASSERT_OK(s);
  for (const float special :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), kLargest, -kLargest, 1e-36f, -1e-36f, 1e-40f})
    for (const bool row : {false, true})
      for (const size_t operand : {0, 1}) {
        Values values = random_values(workload);
        const size_t steps[] = {1, 48}, first[] = {3 * 96, 5};
        for (size_t k = 0; k < (row ? 96u : 1u); ++k) values[operand][first[operand] + k * steps[operand]] = special;
        const std::vector<float> expected = run(workload, *amx(), values, 1, true),
                                 computed = run(s->func(), *amx(), values, 2, false);
        for (size_t i = 0; i < expected.size(); ++i) {
          const bool special_result = operand == 0 ? i / 48 == 3 : i % 48 == 5;
          if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(computed[i])) << special << " " << i;
          } else if (std::isinf(expected[i])) {
            EXPECT_EQ(computed[i], expected[i]) << special << " " << i;
          } else {
            // A row of numbers that are denormal counts as zero.
            const float scale = special_result && row ? std::abs(expected[i]) : 40;
            EXPECT_NEAR(computed[i], expected[i], 1e-5f * scale + (std::abs(special) < 0x1p-126f ? 0x1p-122f : 0))
                << special << " " << i;
          }
        }
      }
}

TEST(SplitProductRule, IsOfferedWhereItMayPay) {
  const auto offered = [](const Func& workload, const std::shared_ptr<const Target>& target = amx()) {
    const auto s = rule_space().generate(workload, target, 1, 3, nullptr);
    EXPECT_TRUE(s.has_value());
    return s && choices(*s).find("split_product/") != std::string::npos;
  };
  EXPECT_TRUE(offered(testing::matmul_workload(64, 64, 64, false, false, true, false)));
  EXPECT_FALSE(offered(testing::matmul_workload(64, 64, 64, false, false, true, false), testing::avx512()));
  EXPECT_FALSE(offered(testing::matmul_workload(64, 64, 64, false, false, false, false)));  // two variable operands
  EXPECT_FALSE(offered(testing::matmul_workload(4, 64, 64, false, false, true, false)));
  EXPECT_FALSE(offered(testing::matmul_workload(64, 8, 64, false, false, true, false)));
  EXPECT_FALSE(offered(testing::matmul_workload(64, 64, 16, false, false, true, false)));
}

TEST(SplitProductRule, MayBeRefusedByItsBound) {
  const Func workload = testing::matmul_workload(64, 64, 64, false, false, true, false);
  const double six = error_bound_of(in_parts(workload, 6)->func()),
               three = error_bound_of(in_parts(workload, 3)->func());
  EXPECT_LT(six, three);
  const auto some = within_error_bound(rule_space(), six), none = within_error_bound(rule_space(), 0);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_LE(error_bound_of(some->generate(workload, amx(), 1, seed, nullptr)->func()), six);
    const auto s = none->generate(workload, amx(), 1, seed, nullptr);
    ASSERT_OK(s);
    EXPECT_EQ(choices(*s).find("split_product/"), std::string::npos);
  }
}

}  // namespace
}  // namespace fettle
