// Products of halves and of unpacked weights, whose factors are widened once.
#include "tune/parts/materialized_factors.h"

#include <fmt/format.h>

#include "schedule/test_programs.h"
#include "tune/space/kernel_testing.h"

namespace fettle {
namespace {

struct Shape {
  std::string type = "f16", rows = "24";
  int64_t columns = 64, steps = 48;
  bool constant = true, transposed = false, relu = false;
};

Func workload(const Shape& shape) {
  const std::string rows = shape.rows;
  const int64_t n = shape.columns, k = shape.steps;
  const std::string b_shape = shape.transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n);
  const std::string b_at = shape.transposed ? "vj, vk" : "vk, vj";
  std::string text = fmt::format(
      "func product(A: {0}[{1}, {2}], B: {0}[{3}]{4}, Y: f32[{1}, {5}] output{6}):\n  alloc C: f32[{1}, {5}]\n",
      shape.type, rows, k, b_shape, shape.constant ? " constant" : "", n, rows == "n" ? ", n: i64 in 1..100" : "");
  text += fmt::format(R"(  for i in {0}:
    for j in {1}:
      for k in {2}:
        block C(vi: spatial[{0}] = i, vj: spatial[{1}] = j, vk: reduce[{2}] = k):
          reads A[vi, vk], B[{3}]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[{3}])
  for i in {0}:
    for j in {1}:
      block Y(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads C[vi, vj]
        writes Y[vi, vj]
        Y[vi, vj] = {4}
)",
                      rows, n, k, b_at, shape.relu ? "max(C[vi, vj], 0.0)" : "C[vi, vj]");
  const auto func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string()) << text;
  return func.value();
}

// AVX2, which has no dot products of halves.
std::shared_ptr<const Target> avx2() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-v3").value());
  return target;
}

const Shape kShapes[] = {
    {},
    {.type = "bf16", .rows = "13", .columns = 100, .steps = 33},
    {.rows = "40", .columns = 37, .steps = 70, .constant = false},
    {.type = "bf16", .rows = "160", .columns = 48, .steps = 300, .constant = false, .relu = true},
    {.rows = "24", .columns = 80, .steps = 40, .transposed = true},
    {.rows = "24", .columns = 80, .steps = 40, .constant = false, .transposed = true},
    {.rows = "n", .columns = 64, .steps = 60, .relu = true},
    {.type = "bf16", .rows = "n", .columns = 41, .steps = 24, .constant = false},
    {.type = "bf16", .rows = "130", .columns = 100, .steps = 40},
    {.rows = "3", .columns = 24, .steps = 64},
};

TEST(MaterializedFactors, KeepTheMeaning) {
  for (const Shape& shape : kShapes)
    for (const int threads : {1, 2}) {
      const Func func = workload(shape);
      const auto made = default_schedule(func, avx2(), threads);
      ASSERT_OK(made);
      const bool few = shape.columns < 32;
      EXPECT_EQ(to_text(made->trace()).find("materialize_factors") == std::string::npos, few) << to_text(func);
      for (const int64_t n : shape.rows == "n" ? std::vector<int64_t>{1, 5, 24, 61} : std::vector<int64_t>{0})
        testing::expect_same_kernel(func, *made, *avx2(), threads,
                                    n == 0 ? std::vector<int64_t>() : std::vector<int64_t>{n});
      if (HasFatalFailure()) return;
    }
}

TEST(MaterializedFactors, EveryPointKeepsTheMeaning) {
  for (const Shape& shape : {kShapes[0], kShapes[2], kShapes[6], kShapes[9]}) {
    const Func func = workload(shape);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto made = rule_space().generate(func, avx2(), 2, seed, nullptr);
      ASSERT_OK(made);
      testing::expect_same_kernel(func, *made, *avx2(), 2, {});
      if (HasFatalFailure()) return;
    }
  }
}

// A constant stays as narrow as it is given: one panel at a time is wide.
TEST(MaterializedFactors, ConstantsStayNarrow) {
  const Func func = workload({.type = "bf16", .rows = "160", .columns = 256, .steps = 256});
  const auto made = default_schedule(func, avx2(), 1);
  ASSERT_OK(made);
  EXPECT_EQ(testing::bytes_of_constants(*made, *avx2()), 256 * 256 * 2);
  EXPECT_NE(to_text(made->trace()).find("columns: 1"), std::string::npos) << to_text(made->trace());
}

// Of single precision there is nothing to widen. Windows overlap: each element would be there several times.
TEST(MaterializedFactors, LeaveOtherProducts) {
  const Target target = *avx2();
  EXPECT_TRUE(narrow_product(workload({}), target));
  EXPECT_FALSE(narrow_product(workload({.type = "f32"}), target));
  const std::string windows = testing::replaced(to_text(workload({})), "A: f16[24, 48]", "A: f16[71, 48]");
  EXPECT_FALSE(narrow_product(parse_func(testing::replaced(windows, "A[vi, vk]", "A[vi + vk, vk]")).value(), target));
}

}  // namespace
}  // namespace fettle
