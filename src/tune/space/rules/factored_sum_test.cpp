#include "tune/parts/factored_sum.h"

#include <fmt/format.h>

#include "schedule/test_programs.h"
#include "tune/parts/materialized_factors.h"
#include "tune/space/kernel_testing.h"

namespace fettle {
namespace {

struct Shape {
  std::string rows = "1";
  int64_t columns = 40, steps = 64, block = 16, bits = 4;
  bool zeros = true, half_scales = false, relu = false;
};

// Products of rows and weights in blocks, as BlockedMatMul is.
Func workload(const Shape& shape) {
  const int64_t per_byte = 8 / shape.bits, blocks = (shape.steps + shape.block - 1) / shape.block;
  const bool has_rows = shape.rows != "1";
  const std::string row = has_rows ? "vi, " : "", extent = has_rows ? shape.rows + ", " : "";
  const std::string step = fmt::format("(vb * {} + vt) * {} + vh", shape.block / per_byte, per_byte);
  std::string x = fmt::format("A[{}{}]", row, step), number = "i32(W[vj, vb, vt])", scale = "S[vj, vb]";
  if (shape.steps % shape.block != 0) x = fmt::format("select({} < {}, {}, 0.0)", step, shape.steps, x);
  if (per_byte > 1) number += fmt::format(" >> i32(vh) * {}i32 & {}i32", shape.bits, (1 << shape.bits) - 1);
  if (shape.half_scales) scale = "f32(" + scale + ")";
  const std::string zero = shape.zeros ? "f32(Z[vj, vb])" : "8.0";
  std::string text = fmt::format(
      "func blocks(A: f32[{}{}], W: u8[{}, {}, {}] constant, S: {}[{}, {}] constant, Z: u8[{}, {}] constant, "
      "C: f32[{}{}] output{}):\n",
      extent, shape.steps, shape.columns, blocks, shape.block / per_byte, shape.half_scales ? "f16" : "f32",
      shape.columns, blocks, shape.columns, blocks, extent, shape.columns,
      shape.rows == "n" ? ", n: i64 in 1..100" : "");
  const std::string out = shape.relu ? "T" : "C";
  std::string indent = "  ";
  const auto line = [&](const std::string& content) { text += indent + content + "\n"; };
  const auto loop = [&](const std::string& content) {
    line(content);
    indent += "  ";
  };
  if (shape.relu) line(fmt::format("alloc T: f32[{}{}]", extent, shape.columns));
  if (has_rows) loop(fmt::format("for i in {}:", shape.rows));
  loop(fmt::format("for j in {}:", shape.columns));
  loop(fmt::format("for b in {}:", blocks));
  loop(fmt::format("for t in {}:", shape.block / per_byte));
  loop(fmt::format("for h in {}:", per_byte));
  loop(fmt::format("block {}({}vj: spatial[{}] = j, vb: reduce[{}] = b, vt: reduce[{}] = t, vh: reduce[{}] = h):", out,
                   has_rows ? fmt::format("vi: spatial[{}] = i, ", shape.rows) : "", shape.columns, blocks,
                   shape.block / per_byte, per_byte));
  line(fmt::format("reads A[{}{}], W[vj, vb, vt], S[vj, vb]{}", row, step, shape.zeros ? ", Z[vj, vb]" : ""));
  line(fmt::format("writes {}[{}vj]", out, row));
  line("init:");
  line(fmt::format("  {}[{}vj] = 0.0", out, row));
  line(fmt::format("{0}[{1}vj] = {0}[{1}vj] + {2} * ((f32({3}) - {4}) * {5})", out, row, x, number, zero, scale));
  if (shape.relu) {
    indent = "  ";
    if (has_rows) loop(fmt::format("for i in {}:", shape.rows));
    loop(fmt::format("for j in {}:", shape.columns));
    loop(fmt::format("block C({}vj: spatial[{}] = j):",
                     has_rows ? fmt::format("vi: spatial[{}] = i, ", shape.rows) : "", shape.columns));
    line(fmt::format("reads T[{}vj]", row));
    line(fmt::format("writes C[{}vj]", row));
    line(fmt::format("C[{0}vj] = max(T[{0}vj], 0.0)", row));
  }
  const auto func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string()) << text;
  return func.value();
}

std::shared_ptr<const Target> host(int threads) { return std::make_shared<const Target>(detect_host(threads)); }

const Shape kShapes[] = {
    {},
    {.columns = 64, .steps = 128, .block = 32},
    {.rows = "2", .columns = 33, .zeros = false},
    {.rows = "7", .columns = 70, .half_scales = true},
    {.rows = "16", .columns = 100, .steps = 96, .block = 32, .relu = true},
    {.rows = "3", .columns = 5, .steps = 50},
    {.columns = 50, .steps = 90, .block = 16, .bits = 2},
    {.rows = "5", .columns = 20, .bits = 8, .zeros = false},
    {.columns = 1, .steps = 48, .bits = 8},
    {.rows = "24", .columns = 64, .steps = 64, .block = 32},
    {.rows = "50", .columns = 48, .steps = 64, .block = 32},
    {.rows = "n", .columns = 40, .steps = 96, .block = 32},
    {.rows = "n", .columns = 37, .steps = 60, .zeros = false, .relu = true},
};

TEST(FactoredSumRule, KeepsTheMeaning) {
  for (const Shape& shape : kShapes)
    for (const int threads : {1, 2}) {
      const Func func = workload(shape);
      const auto made = default_schedule(func, host(threads), threads);
      ASSERT_OK(made);
      const std::string trace = to_text(made->trace());
      // Many rows unpack weights once for all of them.
      const auto narrow = narrow_product(func, *host(threads));
      const bool many = narrow && narrow->fills_panels();
      if (shape.rows == "50" || shape.rows == "7") {
        EXPECT_EQ(many, shape.rows == "50");
      }
      EXPECT_NE(trace.find(many ? "materialize_factors" : "factor_sum"), std::string::npos) << to_text(func) << trace;
      EXPECT_EQ(trace.find(many ? "factor_sum\"" : "materialize_factors"), std::string::npos) << to_text(func) << trace;
      if (!many) {
        EXPECT_NE(trace.find("set_scope"), std::string::npos) << "the rule was refused: " << to_text(func) << trace;
      }
      for (const int64_t n : shape.rows == "n" ? std::vector<int64_t>{1, 5, 24} : std::vector<int64_t>{0})
        testing::expect_same_kernel(func, *made, *host(threads), threads,
                                    n == 0 ? std::vector<int64_t>() : std::vector<int64_t>{n});
    }
}

TEST(FactoredSumRule, EveryPointKeepsTheMeaning) {
  for (const Shape& shape : {kShapes[0], kShapes[3], kShapes[4], kShapes[11]}) {
    const Func func = workload(shape);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto made = rule_space().generate(func, host(2), 2, seed, nullptr);
      ASSERT_OK(made);
      testing::expect_same_kernel(func, *made, *host(2), 2, {});
    }
  }
}

// Weights stay bytes: the prologue moves them, and what a kernel keeps of constants is no larger than what it is given.
TEST(FactoredSumRule, WeightsStayPacked) {
  const Func func = workload({.columns = 64, .steps = 256, .block = 32});
  const auto made = default_schedule(func, host(1), 1);
  ASSERT_OK(made);
  EXPECT_EQ(testing::bytes_of_constants(*made, *host(1)), 64 * 256 / 2 + 64 * 8 * (4 + 1));
}

// No integers of few bits, no blocks, weights that are no constant: sums like any other.
TEST(FactoredSumRule, LeavesOtherSums) {
  EXPECT_TRUE(factorable_sum(workload({})));
  EXPECT_FALSE(factorable_sum(
      parse_func(testing::replaced(to_text(workload({})), "W: u8[40, 4, 8] constant", "W: u8[40, 4, 8]")).value()));
  EXPECT_FALSE(factorable_sum(workload({.block = 4})));
}

}  // namespace
}  // namespace fettle
