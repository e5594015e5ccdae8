#include <cmath>
#include <limits>

#include "base/random.h"
#include "ir/annotations.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::replaced;
using testing::schedule_from;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
constexpr double kEpsilon = 0x1p-23;

enum class Data { kUniform, kNormal, kLogNormal };

float drawn(RandomStream& stream, Data data) {
  const auto uniform = [&] { return (static_cast<double>(stream.below(1 << 30)) + 0.5) / (1 << 30); };
  if (data == Data::kUniform) return static_cast<float>(2 * uniform() - 1);
  const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  return static_cast<float>(data == Data::kNormal ? normal : std::exp(2 * normal) * (stream.below(2) ? 1 : -1));
}

using Values = std::vector<std::vector<float>>;  // of each parameter

Values random_values(const Func& func, Data data) {
  Values values;
  for (size_t p = 0; p < func->params.size(); ++p) {
    int64_t elements = 1;
    for (const Expr& extent : func->params[p].buffer->shape) elements *= *as_int(extent);
    RandomStream stream{23, p};
    values.emplace_back();
    for (int64_t i = 0; i < elements; ++i) values.back().push_back(drawn(stream, data));
  }
  return values;
}

// The last parameter is the output.
std::vector<float> run(const Func& func, Values values) {
  std::vector<BufferArg> args;
  for (auto& v : values) args.push_back({v.data(), static_cast<int64_t>(v.size() * sizeof(float))});
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return values.back();
}

struct Errors {
  double split = 0, chain = 0;  // largest |error| / sum of |terms|, in epsilons
};
// Of a matrix product of m x k by k x n, against double precision.
Errors errors(int64_t m, int64_t n, int64_t k, int64_t terms, Data data) {
  auto s = schedule_from(testing::matmul_program(m, n, k));
  EXPECT_OK(reformulate(s, {s.block("C"), "split_product", {terms, 32, 16, 16}}));
  const Values values = random_values(s.func(), data);
  const std::vector<float> split = run(s.func(), values), chain = run(s.original, values);
  Errors result;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, scale = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double term =
            static_cast<double>(values[0][static_cast<size_t>(i * k + l)]) * values[1][static_cast<size_t>(l * n + j)];
        sum += term;
        scale += std::abs(term);
      }
      const auto at = static_cast<size_t>(i * n + j);
      result.split = std::max(result.split, std::abs(split[at] - sum) / scale / kEpsilon);
      result.chain = std::max(result.chain, std::abs(chain[at] - sum) / scale / kEpsilon);
    }
  return result;
}

TEST(SplitProduct, SixTerms) {
  auto s = schedule_from(testing::matmul_program(6, 5, 10));
  const auto blocks = reformulate(s, {s.block("C"), "split_product", {6, 4, 4, 2}});
  ASSERT_OK(blocks);
  EXPECT_GOLDEN(s.func());
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_EQ(numerics_of(s.func()), Numerics::kApproximate);
  const std::string_view roles[] = {kDataRole,    kWeightsRole, kDataRole,    kDataRole,    kDataRole,    kWeightsRole,
                                    kProductRole, kOutputsRole, kOutputsRole, kOutputsRole, kOutputsRole, ""};
  ASSERT_EQ(blocks->size(), std::size(roles));
  for (size_t i = 0; i < blocks->size(); ++i) {
    const Stmt stmt = s.Schedule::block(blocks->at(i)).value();
    EXPECT_EQ(role_of(*stmt.as<BlockNode>()), roles[i]);
  }
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// What is left out is at most an epsilon of a term; the rest is rounding of sums, in chains of 32 steps.
TEST(SplitProduct, SixTermsRoundNoMoreThanOneChain) {
  for (const Data data : {Data::kUniform, Data::kNormal, Data::kLogNormal}) {
    const Errors e = errors(8, 9, 200, 6, data);
    EXPECT_LE(e.split, e.chain) << static_cast<int>(data);
    EXPECT_LE(errors(8, 9, 1, 6, data).split, 1.01 + 2) << "of one product: the sums of six numbers";
  }
}

TEST(SplitProduct, ThreeTermsStayWithinTheirBound) {
  auto s = schedule_from(testing::matmul_program(4, 4, 4));
  ASSERT_OK(reformulate(s, {s.block("C"), "split_product", {3, 32, 16, 16}}));
  const double bound = error_bound_of(s.func());
  EXPECT_EQ(bound, 385);
  for (const Data data : {Data::kUniform, Data::kNormal, Data::kLogNormal}) {
    const Errors e = errors(8, 9, 64, 3, data);
    EXPECT_LE(e.split, bound);
    EXPECT_GT(e.split, 2) << "more than six terms lose";
  }
}

TEST(SplitProduct, AnyOrientationBatchesAndConvolutions) {
  for (const char* program : {"for i in 5: for j in 6: for k in 7: C[i, j] += A[k, i] * B[j, k]",
                              "for i in 5: for j in 6: for k in 7: C[i, j] += B[k, j] * A[i, k]",
                              "for b in 2: for i in 5: for j in 6: for k in 7: C[b, i, j] += A[b, i, k] * B[b, k, j]",
                              "for i in 5: for b in 3: for j in 6: for k in 7: C[i, b, j] += A[b, i, k] * B[b, k, j]",
                              "for h in 3: for w in 5: for o in 6: for r in 3: for q in 3: for c in 4:"
                              " C[h, w, o] += A[h + r, w + q, c] * F[r, q, c, o]",
                              "for h in 3: for w in 3: for o in 4: for c in 5: for r in 2: for q in 2:"
                              " C[h, w, o] += A[h * 2 + r, w * 2 + q, c] * F[o, c, r, q]",
                              "for o in 4: for h in 4: for w in 5: for c in 6: for r in 3: for q in 3:"
                              " C[o, h, w] += F[o, c, r, q] * A[c, h + r, w + q]"}) {
    for (const std::vector<IntRef>& numbers : {std::vector<IntRef>{6, 2, 4, 4}, {3, 8, 2, 8}}) {
      auto s = schedule_from(program);
      const auto done = reformulate(s, {s.block("C"), "split_product", numbers});
      if (std::string_view(program).starts_with("for o in 4")) {  // pixels last: no index of one operand alone
        EXPECT_TRUE(testing::fails_with(done, ErrorCode::E228));
        continue;
      }
      ASSERT_OK(done);
      EXPECT_OK(check_well_formed(s.func()));
      EXPECT_REPLAYS(s);
      EXPECT_SAME_RESULT(s);
    }
  }
}

// Reductions beside the one that is cut are summed inside a sum, or each iteration apart.
TEST(SplitProduct, CutsLongSums) {
  const auto blocks = [](const std::string& program, int64_t steps) {
    auto s = schedule_from(program);
    const auto done = reformulate(s, {s.block("C"), "split_product", {6, steps, 4, 4}});
    EXPECT_TRUE(done);
    return to_text(s.func());
  };
  const std::string taps = "for i in 4: for j in 4: for r in 3: for c in 64: C[i, j] += A[i + r, c] * B[r, c, j]";
  EXPECT_EQ(blocks(taps, 64).find("C_total"), std::string::npos);
  const std::string apart = blocks(replaced(taps, "64", "256"), 256);
  EXPECT_NE(apart.find("C_product: f32[3, 4, 4]"), std::string::npos) << apart;
  const std::string chunks = blocks(testing::matmul_program(4, 4, 100), 32);
  EXPECT_NE(chunks.find("C_product: f32[4, 4, 4]"), std::string::npos) << chunks;
}

// What bf16 cannot split is computed as it was written: bit by bit.
TEST(SplitProduct, OperandsThatCannotBeSplit) {
  auto s = schedule_from(testing::matmul_program(9, 8, 12));
  ASSERT_OK(reformulate(s, {s.block("C"), "split_product", {6, 4, 4, 4}}));
  for (const float special :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), kLargest, -kLargest, 0x1p38f})
    for (const size_t operand : {0, 1}) {
      Values values = random_values(s.func(), Data::kUniform);
      values[operand][30] = special;
      const std::vector<float> expected = run(s.original, values), computed = run(s.func(), values);
      for (size_t at = 0; at < expected.size(); ++at)
        EXPECT_TRUE((std::isnan(computed[at]) && std::isnan(expected[at])) || computed[at] == expected[at])
            << special << " at " << at << ": " << computed[at] << " instead of " << expected[at];
    }
}

// So are small results, whose operands have parts that a unit takes for zero; operands of any size that make an
// ordinary result are no loss, or large.
TEST(SplitProduct, SmallOperands) {
  auto s = schedule_from(testing::matmul_program(9, 8, 12));
  ASSERT_OK(reformulate(s, {s.block("C"), "split_product", {6, 4, 4, 4}}));
  for (const float small : {1e-25f, 1e-30f, 1e-36f, 1e-40f})
    for (const size_t operand : {0, 1})
      for (const bool beside_large : {false, true}) {
        Values values = random_values(s.func(), Data::kUniform);
        for (float& x : values[operand]) x *= small;
        if (beside_large)
          for (float& x : values[1 - operand]) x *= 1e36f;
        const std::vector<float> expected = run(s.original, values), computed = run(s.func(), values);
        for (size_t at = 0; at < expected.size(); ++at) EXPECT_EQ(computed[at], expected[at]) << small << " at " << at;
      }
}

// Zeros are no reason to doubt: a row of them is what its products are.
TEST(SplitProduct, DoubtsNoZeros) {
  auto s = schedule_from(testing::matmul_program(4, 4, 8));
  ASSERT_OK(reformulate(s, {s.block("C"), "split_product", {3, 8, 4, 4}}));
  Values values = random_values(s.func(), Data::kNormal);
  for (size_t k = 0; k < 8; ++k) values[0][k] = 0;
  const std::vector<float> expected = run(s.original, values), computed = run(s.func(), values);
  EXPECT_EQ(computed[0], 0);
  EXPECT_NE(computed[5], expected[5]) << "three terms differ, unless the tile was computed as it was written";
}

TEST(SplitProduct, E228WhereThePatternDoesNotFit) {
  const std::string matmul = testing::matmul_program(6, 4, 10);
  const auto refuses = [](const std::string& text, const std::vector<IntRef>& numbers = {6, 4, 4, 4}) {
    auto s = schedule_from(text);
    return testing::fails_with(reformulate(s, {s.block("C"), "split_product", numbers}), ErrorCode::E228);
  };
  EXPECT_TRUE(refuses(matmul, {}));
  EXPECT_TRUE(refuses(matmul, {5, 4, 4, 4}));
  EXPECT_TRUE(refuses(matmul, {6, 0, 4, 4}));
  EXPECT_TRUE(refuses(matmul, {6, 4, 4}));
  EXPECT_TRUE(refuses(replaced(matmul, "A[vi, vk] * B", "A[vi, vk] + B")));
  EXPECT_TRUE(refuses(replaced(matmul, "= k)", "= k) where i < 5")));
  EXPECT_TRUE(refuses("for i in 8: for k in 8: C[i] += A[i, k] * B[k]"));
  EXPECT_TRUE(refuses("for i in 8: for j in 8: for k in 8: C[i, j] += A[i, k] * A[k, j]"));
  EXPECT_TRUE(refuses("for i in 8: C[i] = A[i]"));
}

}  // namespace
}  // namespace fettle
