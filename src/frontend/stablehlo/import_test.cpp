// What StableHLO's operators become, beside the numbers that its reference interpreter, or XLA, gives.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/importer.h"
#include "frontend/stablehlo/read.h"
#include "frontend/stablehlo/vhlo.h"
#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

Result<Graph> imported(const std::string& text) {
  FETTLE_TRY(const stablehlo::Module module, stablehlo::parse_text(text, "test"));
  return import_stablehlo(module);
}
std::string function(const std::string& inputs, const std::string& type, const std::string& body) {
  return fmt::format("func.func public @main({}) -> {} {{\n{}\n  return %r : {}\n}}\n", inputs, type, body, type);
}

/// What a program gives, after all passes and as it is planned: its first output by name, or the one that is called so.
std::vector<double> numbers_of(const std::string& text, const std::map<std::string, ConstantTensor>& inputs = {},
                               const std::string& output = {}) {
  auto graph = imported(text);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().to_string());
  if (!graph) return {};
  const auto plan = optimised_plan(*graph);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
  if (!plan) return {};
  PlanRunner runner(*graph, *plan, inputs);
  EXPECT_EQ(runner.broken_rule(), std::nullopt);
  const auto results = runner.run();
  return to_doubles(output.empty() ? results.begin()->second : results.at(output));
}

struct Case {
  const char *name, *type, *body;
  std::vector<double> want;
};
void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class StableHlo : public testing::TestWithParam<Case> {};

TEST_P(StableHlo, GivesWhatItsReferenceGives) {
  const Case& c = GetParam();
  const std::vector<double> got = numbers_of(function("", c.type, c.body));
  ASSERT_EQ(got.size(), c.want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(c.want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else if (got[i] != c.want[i]) {
      EXPECT_NEAR(got[i], c.want[i], 1e-6 * std::abs(c.want[i]) + 1e-12) << i;
    }
  }
}

const Case kCases[] = {
    {"Einsum",
     "tensor<2x2xf32>",
     R"(
%x = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
%y = stablehlo.constant dense<[[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]> : tensor<2x3xf32>
%r = stablehlo.einsum %x, %y, config = "ab,cb->ca" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>)",
     {4, 10, 8, 17}},
    {"UnaryEinsum",
     "tensor<3xi32>",
     R"(
%x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
%r = stablehlo.unary_einsum %x, config = "ab->b" : (tensor<2x3xi32>) -> tensor<3xi32>)",
     {5, 7, 9}},
    {"MaximumOfNaN",
     "tensor<3xf32>",
     R"(
%x = stablehlo.constant dense<[1.0, 0x7FC00000, 3.0]> : tensor<3xf32>
%y = stablehlo.constant dense<[2.0, 1.0, 0x7FC00000]> : tensor<3xf32>
%r = stablehlo.maximum %x, %y : tensor<3xf32>)",
     {2, NAN, NAN}},
    {"ShiftsBeyondTheWidth",
     "tensor<4xi8>",
     R"(
%x = stablehlo.constant dense<[7, -7, 5, -128]> : tensor<4xi8>
%y = stablehlo.constant dense<[1, 1, 8, -1]> : tensor<4xi8>
%r = stablehlo.shift_right_arithmetic %x, %y : tensor<4xi8>)",
     {3, -4, 0, -1}},
    {"LogicalShiftOfSigned",
     "tensor<4xi8>",
     R"(
%x = stablehlo.constant dense<[7, -7, 5, -128]> : tensor<4xi8>
%y = stablehlo.constant dense<[1, 1, 8, -1]> : tensor<4xi8>
%r = stablehlo.shift_right_logical %x, %y : tensor<4xi8>)",
     {3, 124, 0, 0}},
    {"CountsBits",
     "tensor<4xi8>",
     R"(
%x = stablehlo.constant dense<[7, -7, 5, -128]> : tensor<4xi8>
%r = stablehlo.popcnt %x : tensor<4xi8>)",
     {3, 6, 2, 1}},
    {"RoundsHalvesAway",
     "tensor<4xf32>",
     R"(
%x = stablehlo.constant dense<[2.5, -2.5, 0.49999997, 3.2]> : tensor<4xf32>
%r = stablehlo.round_nearest_afz %x : tensor<4xf32>)",
     {3, -3, 0, 3}},
    {"SelectsByIndex",
     "tensor<2x2xf32>",
     R"(
%x = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
%i = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
%r = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 0 : i64} :
  (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2xf32>)",
     {3, 1, 6, 4}},
    {"SignKeepsZeros",
     "tensor<4xf32>",
     R"(
%x = stablehlo.constant dense<[1.5, -2.0, 0.25, -0.0]> : tensor<4xf32>
%r = stablehlo.sign %x : tensor<4xf32>)",
     {1, -1, 1, -0}},
    {"Expm1NearZero",
     "tensor<3xf32>",
     R"(
%x = stablehlo.constant dense<[1.0e-6, -1.0, 2.0]> : tensor<3xf32>
%r = stablehlo.exponential_minus_one %x : tensor<3xf32>)",
     {1.0000004522225936e-06, -0.6321205496788025, 6.389056205749512}},
    {"Atan2OfAllQuadrants",
     "tensor<4xf32>",
     R"(
%x = stablehlo.constant dense<[1.0, 1.0, -1.0, -0.0]> : tensor<4xf32>
%y = stablehlo.constant dense<[2.0, -2.0, -2.0, -1.0]> : tensor<4xf32>
%r = stablehlo.atan2 %x, %y : tensor<4xf32>)",
     {0.46364760398864746, 2.677945137023926, -2.677945137023926, -3.1415927410125732}},
    {"ReducesPrecision",
     "tensor<3xf32>",
     R"(
%x = stablehlo.constant dense<[1.2345678, 70000.0, 1.0e-6]> : tensor<3xf32>
%r = stablehlo.reduce_precision %x, format = e5m10 : tensor<3xf32>)",
     {1.234375, INFINITY, 0}},
    {"BroadcastsAcross",
     "tensor<2x1x2xi32>",
     R"(
%x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
%r = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<2x2xi32>) -> tensor<2x1x2xi32>)",
     {1, 3, 2, 4}},
    {"PadsBetweenAndCuts",
     "tensor<6xi32>",
     R"(
%x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
%v = stablehlo.constant dense<9> : tensor<i32>
%r = stablehlo.pad %x, %v, low = [-1], high = [2], interior = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<6xi32>)",
     {9, 2, 9, 3, 9, 9}},
    {"DynamicSliceIsMovedInside",
     "tensor<1x2xi32>",
     R"(
%x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
%i = stablehlo.constant dense<5> : tensor<i32>
%j = stablehlo.constant dense<-1> : tensor<i32>
%r = stablehlo.dynamic_slice %x, %i, %j, sizes = [1, 2] : (tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<1x2xi32>)",
     {4, 5}},
    {"DynamicUpdateSliceIsMovedInside",
     "tensor<4xi32>",
     R"(
%x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%u = stablehlo.constant dense<[8, 9]> : tensor<2xi32>
%i = stablehlo.constant dense<3> : tensor<i32>
%r = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>)",
     {1, 2, 8, 9}},
    {"DotGeneralOfBatches",
     "tensor<2x1x2xf32>",
     R"(
%x = stablehlo.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
%y = stablehlo.constant dense<[[[1.0, 0.5], [2.0, -1.0]], [[0.0, 1.0], [3.0, 2.0]]]> : tensor<2x2x2xf32>
%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x2xf32>, tensor<2x2x2xf32>) -> tensor<2x1x2xf32>)",
     {5, -1.5, 12, 11}},
    {"ReducesByARegion",
     "tensor<2xi32>",
     R"(
%x = stablehlo.constant dense<[[1, 5, 3], [4, 2, 4]]> : tensor<2x3xi32>
%p = stablehlo.constant dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>
%a = stablehlo.constant dense<-2147483648> : tensor<i32>
%b = stablehlo.constant dense<0> : tensor<i32>
%m, %r = "stablehlo.reduce"(%x, %p, %a, %b) ({
^bb0(%0: tensor<i32>, %1: tensor<i32>, %2: tensor<i32>, %3: tensor<i32>):
  %4 = stablehlo.compare GE, %0, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %5 = stablehlo.select %4, %0, %2 : tensor<i1>, tensor<i32>
  %6 = stablehlo.select %4, %1, %3 : tensor<i1>, tensor<i32>
  stablehlo.return %5, %6 : tensor<i32>, tensor<i32>
}) {dimensions = array<i64: 1>} : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>))",
     {1, 0}},
    {"SumsWindows",
     "tensor<4xi32>",
     R"(
%x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%z = stablehlo.constant dense<0> : tensor<i32>
%r = "stablehlo.reduce_window"(%x, %z) ({
^bb0(%0: tensor<i32>, %1: tensor<i32>):
  %2 = stablehlo.add %0, %1 : tensor<i32>
  stablehlo.return %2 : tensor<i32>
}) {window_dimensions = array<i64: 4>, padding = dense<[[3, 0]]> : tensor<1x2xi64>} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>)",
     {1, 3, 6, 10}},
    {"Gathers",
     "tensor<3x2xi32>",
     R"(
%x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
%i = stablehlo.constant dense<[[1], [0], [9]]> : tensor<3x1xi32>
%r = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>} : (tensor<2x3xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>)",
     {4, 5, 1, 2, 4, 5}},
    {"Scatters",
     "tensor<4xi32>",
     R"(
%x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%i = stablehlo.constant dense<[[1], [1], [7]]> : tensor<3x1xi32>
%u = stablehlo.constant dense<[10, 20, 30]> : tensor<3xi32>
%r = "stablehlo.scatter"(%x, %i, %u) ({
^bb0(%0: tensor<i32>, %1: tensor<i32>):
  %2 = stablehlo.add %0, %1 : tensor<i32>
  stablehlo.return %2 : tensor<i32>
}) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<4xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<4xi32>)",
     {1, 32, 3, 4}},
    {"SortsPairs",
     "tensor<4xi32>",
     R"(
%x = stablehlo.constant dense<[3, 1, 3, 2]> : tensor<4xi32>
%p = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
%k, %r = "stablehlo.sort"(%x, %p) ({
^bb0(%0: tensor<i32>, %1: tensor<i32>, %2: tensor<i32>, %3: tensor<i32>):
  %4 = stablehlo.compare GT, %0, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %4 : tensor<i1>
}) {dimension = 0 : i64, is_stable = true} : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>))",
     {0, 2, 3, 1}},
    {"CountedLoop",
     "tensor<i32>",
     R"(
%c = stablehlo.constant dense<3> : tensor<i32>
%n = stablehlo.constant dense<8> : tensor<i32>
%x = stablehlo.constant dense<1> : tensor<i32>
%s:3 = stablehlo.while(%i = %c, %l = %n, %a = %x) : tensor<i32>, tensor<i32>, tensor<i32>
cond {
  %0 = stablehlo.compare LT, %i, %l : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %0 : tensor<i1>
} do {
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %2 = stablehlo.add %i, %1 : tensor<i32>
  %3 = stablehlo.multiply %a, %i : tensor<i32>
  stablehlo.return %2, %l, %3 : tensor<i32>, tensor<i32>, tensor<i32>
}
%r = stablehlo.add %s#0, %s#2 : tensor<i32>)",
     {2528}},
    {"LoopUntil",
     "tensor<i32>",
     R"(
%x = stablehlo.constant dense<1> : tensor<i32>
%n = stablehlo.constant dense<100> : tensor<i32>
%r = stablehlo.while(%a = %x) : tensor<i32>
cond {
  %0 = stablehlo.compare LE, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %0 : tensor<i1>
} do {
  %1 = stablehlo.add %a, %a : tensor<i32>
  stablehlo.return %1 : tensor<i32>
})",
     {128}},
    {"CaseBeyondTheLast",
     "tensor<i32>",
     R"(
%x = stablehlo.constant dense<-3> : tensor<i32>
%y = stablehlo.constant dense<5> : tensor<i32>
%r = "stablehlo.case"(%x) ({
  stablehlo.return %x : tensor<i32>
}, {
  %0 = stablehlo.multiply %y, %y : tensor<i32>
  stablehlo.return %0 : tensor<i32>
}, {
  %1 = stablehlo.add %y, %x : tensor<i32>
  stablehlo.return %1 : tensor<i32>
}) : (tensor<i32>) -> tensor<i32>)",
     {2}},
    {"FactorsAMatrix",
     "tensor<3x3xf32>",
     R"(
%x = stablehlo.constant dense<[[4.0, 2.0, -2.0], [2.0, 5.0, 3.0], [-2.0, 3.0, 6.0]]> : tensor<3x3xf32>
%r = stablehlo.cholesky %x, lower = true : tensor<3x3xf32>)",
     {2, 0, 0, 1, 2, 0, -1, 2, 1}},
    {"SolvesATriangle",
     "tensor<2x2xf32>",
     R"(
%x = stablehlo.constant dense<[[2.0, 9.0], [1.0, 4.0]]> : tensor<2x2xf32>
%y = stablehlo.constant dense<[[2.0, 4.0], [7.0, 8.0]]> : tensor<2x2xf32>
%r = "stablehlo.triangular_solve"(%x, %y) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>)",
     {0.125, 1, 1.75, 2}},
    {"ComplexQuotient",
     "tensor<4xf32>",
     R"(
%x = stablehlo.constant dense<[(1.0, 2.0), (3.0, -1.0)]> : tensor<2xcomplex<f32>>
%y = stablehlo.constant dense<[(0.0, 1.0), (2.0, 2.0)]> : tensor<2xcomplex<f32>>
%q = stablehlo.divide %x, %y : tensor<2xcomplex<f32>>
%a = stablehlo.real %q : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
%b = stablehlo.imag %q : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>)",
     {2, 0.5, -1, -1}},
    {"TransformsRealNumbers",
     "tensor<6xf32>",
     R"(
%x = stablehlo.constant dense<[1.0, 2.0, 0.0, -1.0]> : tensor<4xf32>
%q = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
%a = stablehlo.real %q : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
%b = stablehlo.imag %q : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>)",
     {2, 1, 0, 0, -3, 0}},
};
INSTANTIATE_TEST_SUITE_P(Operators, StableHlo, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StableHloImport, OpenExtentsAreSizes) {
  const std::string text = function("%x: tensor<?x2xf32>", "tensor<?xf32>", R"(
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %count = stablehlo.multiply %n, %two : tensor<i32>
  %shape = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_reshape %x, %shape : (tensor<?x2xf32>, tensor<1xi32>) -> tensor<?xf32>)");
  const std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(numbers_of(text, {{"arg0", *to_tensor(numbers, kF32, {3, 2})}}), numbers);
}

/// A program of windows over %x: tensor<?xf32>, of %n elements. made: operators that give the sizes of the windows,
/// their strides, and what stands before and behind: %extent, %stride, %before and %after, each tensor<1xi32>.
std::string open_windows(const std::string& combined, const std::string& first, const std::string& made) {
  return fmt::format(R"(
func.func private @combine(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
  %r = {}
  return %r : tensor<f32>
}}
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %none = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %less = stablehlo.subtract %n, %one : tensor<1xi32>
  %first = stablehlo.constant dense<{}> : tensor<f32>
{}
  %pair = stablehlo.concatenate %before, %after, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %padding = stablehlo.reshape %pair : (tensor<2xi32>) -> tensor<1x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %first, %extent, %stride, %one, %one, %padding)
    {{called_computations = [@combine]}} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
    tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}})",
                     combined, first, made);
}
std::map<std::string, ConstantTensor> counted_up(int64_t n) {
  std::vector<double> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 1);
  return {{"arg0", *to_tensor(numbers, kF32, {n})}};
}
std::string same(const std::string& name, const std::string& as) {
  return fmt::format("  %{} = stablehlo.add %{}, %none : tensor<1xi32>\n", name, as);
}

TEST(StableHloImport, WindowsOfOpenSizes) {
  const std::string sum = "stablehlo.add %a, %b : tensor<f32>", max = "stablehlo.maximum %a, %b : tensor<f32>";
  const std::string cumulating =
      same("extent", "n") + same("stride", "one") + same("before", "less") + same("after", "none");
  // Windows that reach to the first element are taken one after the other, in linear time.
  for (const std::string& combined : {sum, max, std::string("stablehlo.subtract %b, %a : tensor<f32>")}) {
    const auto graph = imported(open_windows(combined, "0.0", cumulating));
    ASSERT_TRUE(graph) << graph.error().to_string();
    for_each_graph(*graph, [](const Graph& part) {
      for (const Node* node : part.nodes()) EXPECT_FALSE(node->op->name.starts_with("Window")) << to_text(part);
    });
  }
  for (const int64_t n : {1, 3, 70}) {
    std::vector<double> sums, backwards, all;
    for (int64_t i = 0; i < n; ++i) {
      sums.push_back(static_cast<double>((i + 1) * (i + 2) / 2));
      backwards.push_back(static_cast<double>(n * (n + 1) / 2 - i * (i + 1) / 2));
    }
    EXPECT_EQ(numbers_of(open_windows(sum, "0.0", cumulating), counted_up(n)), sums);
    EXPECT_EQ(numbers_of(open_windows(max, "0xFF800000", cumulating), counted_up(n)),
              to_doubles(counted_up(n).at("arg0")));
    EXPECT_EQ(numbers_of(open_windows(sum, "0.0",
                                      same("extent", "n") + same("stride", "one") + same("before", "none") +
                                          same("after", "less")),
                         counted_up(n)),
              backwards);
    // One window over all.
    EXPECT_EQ(numbers_of(open_windows(max, "0xFF800000",
                                      same("extent", "n") + same("stride", "one") + same("before", "none") +
                                          same("after", "none")),
                         counted_up(n)),
              std::vector<double>{static_cast<double>(n)});
  }
}

TEST(StableHloImport, WindowsOfPartsOfAnOpenSize) {
  const std::string half = R"(
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %extent = stablehlo.divide %n, %two : tensor<1xi32>
)" + same("stride", "two") +
                           same("before", "one") + same("after", "none");
  const std::string sum = "stablehlo.add %a, %b : tensor<f32>", odd = R"(stablehlo.subtract %b, %a : tensor<f32>)";
  for (const std::string& combined : {sum, odd})
    for (const int64_t n : {2, 7, 20}) {
      std::vector<double> want;
      for (int64_t begin = -1; begin + n / 2 <= n; begin += 2) {
        double folded = 0;
        for (int64_t k = begin; k < begin + n / 2; ++k) {
          const double element = k < 0 ? 0 : static_cast<double>(k + 1);
          folded = combined == sum ? folded + element : element - folded;
        }
        want.push_back(folded);
      }
      EXPECT_EQ(numbers_of(open_windows(combined, "0.0", half), counted_up(n)), want) << n;
    }
}

TEST(StableHloImport, StridesOfWindowsMustBeKnown) {
  const auto graph = imported(
      open_windows("stablehlo.add %a, %b : tensor<f32>", "0.0",
                   same("extent", "n") + same("stride", "n") + same("before", "none") + same("after", "none")));
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::E604);
  EXPECT_EQ(graph.error().message, "a stride of its windows is not known");
}

TEST(StableHloImport, PaddingMayBeASize) {
  const std::string text = function("%x: tensor<?xf32>", "tensor<?xf32>", R"(
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %none = stablehlo.constant dense<0> : tensor<1xi32>
  %less = stablehlo.constant dense<-1> : tensor<1xi32>
  %v = stablehlo.constant dense<7.0> : tensor<f32>
  %r = stablehlo.dynamic_pad %x, %v, %less, %n, %none
    : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>)");
  EXPECT_EQ(numbers_of(text, counted_up(3)), (std::vector<double>{2, 3, 7, 7, 7}));
  EXPECT_EQ(numbers_of(text, counted_up(1)), (std::vector<double>{7}));
}

TEST(StableHloImport, AnImageMayBePaddedBySizes) {
  const std::string text = function("%x: tensor<1x1x?xf32>", "tensor<1x1x?xf32>", R"(
  %size = stablehlo.get_dimension_size %x, dim = 2 : (tensor<1x1x?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1x1xi32>
  %none = stablehlo.constant dense<0> : tensor<1x1xi32>
  %padding = stablehlo.concatenate %none, %n, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
  %w = stablehlo.constant dense<1.0> : tensor<1x1x2xf32>
  %r = "stablehlo.dynamic_conv"(%x, %w, %padding) {window_strides = array<i64: 1>, rhs_dilation = array<i64: 1>,
    lhs_dilation = array<i64: 1>, window_reversal = array<i1: false>, feature_group_count = 1 : i64,
    batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>}
    : (tensor<1x1x?xf32>, tensor<1x1x2xf32>, tensor<1x2xi32>) -> tensor<1x1x?xf32>)");
  const std::vector<double> numbers{1, 2, 3};
  EXPECT_EQ(numbers_of(text, {{"arg0", *to_tensor(numbers, kF32, {1, 1, 3})}}), (std::vector<double>{3, 5, 3, 0, 0}));
}

TEST(StableHloImport, ComplexNumbersArePairsAtTheBorder) {
  const std::string text = function("%x: tensor<2xcomplex<f32>>", "tensor<2xcomplex<f32>>", R"(
  %r = stablehlo.multiply %x, %x : tensor<2xcomplex<f32>>)");
  const auto graph = imported(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(graph->inputs()[0]->type->to_string(), "f32[2, 2]");
  EXPECT_EQ(numbers_of(text, {{"arg0", *to_tensor(std::vector<double>{1, 2, 0, 3}, kF32, {2, 2})}}),
            (std::vector<double>{-3, 4, -9, 0}));
}

TEST(StableHloImport, CallsAreInlined) {
  const std::string text = R"(
func.func private @twice(%a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.add %a, %a : tensor<i32>
  return %0 : tensor<i32>
}
func.func public @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = func.call @twice(%x) : (tensor<i32>) -> tensor<i32>
  %1 = func.call @twice(%0) : (tensor<i32>) -> tensor<i32>
  return %1 : tensor<i32>
})";
  EXPECT_EQ(numbers_of(text, {{"arg0", scalar(3, kI32)}}), std::vector<double>{12});
}

// Windows that data place in a loop, with as many elements as an open size: the sum of all rows, one row a turn.
TEST(StableHloImport, SlicesThatEndASizeBehindTheirStartAreReadInLoops) {
  const std::string text = function("%x: tensor<2x?xf32>", "tensor<?xf32>", R"(
  %c = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %unit = stablehlo.constant dense<1> : tensor<1xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
  %shape = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %sizes = stablehlo.concatenate %unit, %shape, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %none = stablehlo.dynamic_broadcast_in_dim %z, %shape, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  %s:2 = stablehlo.while(%i = %c, %a = %none) : tensor<i32>, tensor<?xf32>
  cond {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %begin = stablehlo.concatenate %at, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %end = stablehlo.add %begin, %sizes : tensor<2xi32>
    %row = stablehlo.real_dynamic_slice %x, %begin, %end, %ones : (tensor<2x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xf32>
    %2 = stablehlo.dynamic_reshape %row, %shape : (tensor<1x?xf32>, tensor<1xi32>) -> tensor<?xf32>
    %3 = stablehlo.add %a, %2 : tensor<?xf32>
    stablehlo.return %1, %3 : tensor<i32>, tensor<?xf32>
  }
  %r = stablehlo.negate %s#1 : tensor<?xf32>)");
  EXPECT_EQ(numbers_of(text, {{"arg0", *to_tensor(std::vector<double>{1, 2, 3, 10, 20, 30}, kF32, {2, 3})}}),
            (std::vector<double>{-11, -22, -33}));
}

TEST(StableHloImport, CountedLoopsHaveALimitAndReadWhatStays) {
  const std::string text = function("%x: tensor<4xf32>", "tensor<f32>", R"(
  %c = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s:3 = stablehlo.while(%i = %c, %a = %z, %v = %x) : tensor<i32>, tensor<f32>, tensor<4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.dynamic_slice %v, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
    %4 = stablehlo.add %a, %3 : tensor<f32>
    stablehlo.return %1, %4, %v : tensor<i32>, tensor<f32>, tensor<4xf32>
  }
  %r = stablehlo.negate %s#1 : tensor<f32>)");
  const auto graph = imported(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  const auto loop = std::ranges::find_if(graph->nodes(), [](const Node* n) { return n->op->name == "Loop"; });
  ASSERT_NE(loop, graph->nodes().end());
  EXPECT_EQ((*loop)->attrs.get_int("carried", 0), 1) << to_text(*graph);  // not the counter
  ASSERT_TRUE((*loop)->inputs[0]);
  EXPECT_EQ((*loop)->inputs[0]->constant->int_at(0), 4);
  EXPECT_EQ(numbers_of(text, {{"arg0", *to_tensor(std::vector<double>{1, 2, 3, 4}, kF32, {4})}}),
            std::vector<double>{-10});
}

TEST(StableHloImport, RowsThatALoopReadsAndWritesOneAfterTheOtherAreStacked) {
  const auto scan = [](const char* index) {
    return function("%x: tensor<3x2xf32>", "tensor<3x2xf32>",
                    fmt::format(R"(
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<2xf32>
  %old = stablehlo.constant dense<7.0> : tensor<3x2xf32>
  %s:3 = stablehlo.while(%i = %c, %a = %z, %y = %old) : tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  cond {{
    %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }} do {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %back = stablehlo.subtract %two, %i : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.dynamic_slice %x, {0}, %zero, sizes = [1, 2]
        : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x2xf32>) -> tensor<2xf32>
    %4 = stablehlo.add %a, %3 : tensor<2xf32>
    %5 = stablehlo.reshape %4 : (tensor<2xf32>) -> tensor<1x2xf32>
    %6 = stablehlo.dynamic_update_slice %y, %5, {0}, %zero
        : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
    stablehlo.return %1, %4, %6 : tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  }}
  %r = stablehlo.negate %s#2 : tensor<3x2xf32>)",
                                index));
  };
  const std::map<std::string, ConstantTensor> inputs{
      {"arg0", *to_tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, kF32, {3, 2})}};
  for (const char* index : {"%i", "%back"}) {
    const auto graph = imported(scan(index));
    ASSERT_TRUE(graph) << graph.error().to_string();
    const auto loop = std::ranges::find_if(graph->nodes(), [](const Node* n) { return n->op->name == "Loop"; });
    ASSERT_NE(loop, graph->nodes().end());
    EXPECT_EQ((*loop)->attrs.get_int("carried", 0), 1) << to_text(*graph);
    EXPECT_EQ((*loop)->outputs.size(), 2u);
  }
  EXPECT_EQ(numbers_of(scan("%i"), inputs), (std::vector<double>{-1, -2, -4, -6, -9, -12}));
  EXPECT_EQ(numbers_of(scan("%back"), inputs), (std::vector<double>{-9, -12, -8, -10, -5, -6}));
}

TEST(StableHloImport, AllThatIsNotKnownIsNamed) {
  const auto graph = imported(function("%x: tensor<f32>", "tensor<f32>", R"(
  %0 = "stablehlo.custom_call"(%x) {call_target_name = "mystery"} : (tensor<f32>) -> tensor<f32>
  %r = "stablehlo.send_more"(%0) : (tensor<f32>) -> tensor<f32>)"));
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::E603);
  EXPECT_NE(graph.error().message.find("stablehlo.custom_call @mystery (line 3, column 8)"), std::string::npos)
      << graph.error().message;
  EXPECT_NE(graph.error().message.find("stablehlo.send_more (line 4, column 8): there is no such operator"),
            std::string::npos)
      << graph.error().message;
}

TEST(StableHloImport, WhatIsRefusedHasItsReason) {
  for (const auto& [op, why] :
       std::initializer_list<std::pair<const char*, const char*>>{{"stablehlo.send", "nobody outside is asked"},
                                                                  {"stablehlo.infeed", "nobody outside is asked"},
                                                                  {"stablehlo.async_start", "is done at once"},
                                                                  {"arith.negf", "the dialect arith is not read"}}) {
    const auto module = stablehlo::parse_text(
        function("%x: tensor<f32>", "tensor<f32>", fmt::format("  %r = \"{}\"(%x) : (tensor<f32>) -> tensor<f32>", op)),
        "test");
    ASSERT_TRUE(module) << module.error().to_string();
    const std::vector<Diagnostic> problems = stablehlo_problems(*module);
    ASSERT_EQ(problems.size(), 1u) << op;
    EXPECT_NE(problems[0].message.find(why), std::string::npos) << problems[0].message;
  }
}

// What the program says of where it comes from, and where it stands in the text; of the innermost operator.
TEST(StableHloImport, ErrorsHaveThePlaceInTheText) {
  const auto graph = imported(R"(
func.func private @f(%x: tensor<2x3xf32>) -> tensor<5xf32> {
  %r = "stablehlo.reshape"(%x) : (tensor<2x3xf32>) -> tensor<5xf32> loc("model.py":7:3)
  return %r : tensor<5xf32>
}
func.func public @main(%x: tensor<2x3xf32>) -> tensor<5xf32> {
  %a = call @f(%x) : (tensor<2x3xf32>) -> tensor<5xf32> loc("model.py":9:3)
  return %a : tensor<5xf32>
})");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().where, "stablehlo.reshape, model.py:7:3, line 3, column 8");
}

/// The numbers of the first call of a program that has no inputs.
std::vector<double> drawn(const std::string& text) {
  return numbers_of(text, {{"random.calls", scalar(0, kI64)}}, "result0");
}

TEST(StableHloImport, RandomNumbersAreAsAskedForAndCountTheirCalls) {
  const auto of = [](const std::string& type, const std::string& a, const std::string& b, const std::string& kind) {
    return function("", "tensor<64x64x" + type + ">",
                    fmt::format(R"(
  %a = stablehlo.constant dense<{1}> : tensor<{0}>
  %b = stablehlo.constant dense<{2}> : tensor<{0}>
  %s = stablehlo.constant dense<[64, 64]> : tensor<2xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = {3} : (tensor<{0}>, tensor<{0}>, tensor<2xi64>) -> tensor<64x64x{0}>)",
                                type, a, b, kind));
  };
  const auto mean = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  };
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    const std::vector<double> x = drawn(of(type, "-1.0", "3.0", "UNIFORM"));
    EXPECT_GE(*std::ranges::min_element(x), -1) << type;
    EXPECT_LT(*std::ranges::max_element(x), 3) << type;
    EXPECT_NEAR(mean(x), 1, 0.1) << type;
    EXPECT_NEAR(mean(drawn(of(type, "5.0", "2.0", "NORMAL"))), 5, 0.15) << type;
  }
  // A state counts the calls; test_pjrt has several of them.
  const auto graph = imported(of("f32", "0.0", "1.0", "UNIFORM"));
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(graph->states().size(), 1u);
  // Nothing lies between neighbours.
  EXPECT_EQ(std::ranges::count(drawn(of("f32", "16777216.0", "16777218.0", "UNIFORM")), 16777216), 64 * 64);
  for (const char* type : {"i8", "ui8", "i32", "i64", "ui64"}) {
    const std::vector<double> x = drawn(of(type, "3", "7", "UNIFORM"));
    EXPECT_EQ(std::set<double>(x.begin(), x.end()), (std::set<double>{3, 4, 5, 6})) << type;
    EXPECT_NEAR(mean(x), 4.5, 0.1) << type;
  }
  const std::vector<double> wide = drawn(of("i8", "-128", "127", "UNIFORM"));
  EXPECT_EQ(std::set<double>(wide.begin(), wide.end()).size(), 255u);
  EXPECT_FALSE(imported(of("i32", "3", "7", "NORMAL")));
}

TEST(StableHloImport, RandomNumbersOfOneCallDiffer) {
  const std::string draw =
      "stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>)"
      " -> tensor<8xf32>\n";
  const std::string bounds = R"(  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<8> : tensor<1xi64>
)";
  const std::vector<double> differences = drawn(
      function("", "tensor<8xf32>",
               bounds + "  %0 = " + draw + "  %1 = " + draw + "  %r = stablehlo.subtract %0, %1 : tensor<8xf32>"));
  for (const double difference : differences) EXPECT_NE(difference, 0);
  const auto in_loop =
      imported(function("", "tensor<8xf32>", bounds + R"(  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %r, %c = stablehlo.while(%i = %z, %go = %t) : tensor<8xf32>, tensor<i1>
   cond {
    stablehlo.return %go : tensor<i1>
  } do {
    %0 = )" + draw + "    stablehlo.return %0, %go : tensor<8xf32>, tensor<i1>\n  }"));
  ASSERT_FALSE(in_loop);
  EXPECT_NE(in_loop.error().message.find("random numbers in a loop"), std::string::npos) << in_loop.error().message;
}

// What depends on what fails is not judged; what fails in a function that is called twice is told once.
TEST(StableHloImport, EveryProblemIsTold) {
  const auto module = stablehlo::parse_text(R"(
func.func private @f(%x: tensor<2x3xf32>) -> tensor<5xf32> {
  %r = "stablehlo.reshape"(%x) : (tensor<2x3xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}
func.func public @main(%x: tensor<2x3xf32>, %p: tensor<i1>) -> (tensor<5xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = call @f(%x) : (tensor<2x3xf32>) -> tensor<5xf32>
  %b = call @f(%x) : (tensor<2x3xf32>) -> tensor<5xf32>
  %c = stablehlo.add %a, %b : tensor<5xf32>
  %d = "stablehlo.if"(%p) ({
    %e = "stablehlo.transpose"(%x) {permutation = array<i64: 0, 7>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %e : tensor<2x3xf32>
  }, {
    stablehlo.return %x : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  %g = stablehlo.negate %x : tensor<2x3xf32>
  return %c, %d, %g : tensor<5xf32>, tensor<2x3xf32>, tensor<2x3xf32>
})",
                                            "test");
  ASSERT_TRUE(module) << module.error().to_string();
  const std::vector<Diagnostic> problems = stablehlo_problems(*module);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].where, "stablehlo.reshape, line 3, column 8");
  EXPECT_EQ(problems[1].where, "stablehlo.transpose, line 11, column 10");
  EXPECT_FALSE(import_stablehlo(*module));

  const ModelSurvey survey = survey_stablehlo(*module);
  EXPECT_EQ(survey.format, "StableHLO, text");
  EXPECT_EQ(survey.operators.at("stablehlo.reshape"), 1);
  EXPECT_EQ(survey.operators.at("func.call"), 2);
  EXPECT_EQ(survey.inputs.at(1), (std::pair<std::string, std::string>("arg1", "tensor<i1>")));
}

/// The words of the block of docs/stablehlo.md that has this title.
std::set<std::string> names_on_page(const std::string& title) {
  std::ifstream in(std::string(FETTLE_SOURCE_DIR) + "/docs/stablehlo.md");
  for (std::string line; std::getline(in, line);)
    if (line == "```" + title) break;
  std::set<std::string> names;
  for (std::string word; in >> word && word != "```";) names.insert(word);
  return names;
}

TEST(StableHloImport, ThePageHasEveryOperator) {
  std::set<std::string> honoured, refused, chlo;
  for (const std::string& name : stablehlo::vhlo_operators()) {
    if (name == "call" || name == "func" || name == "return" || name == "custom_call") continue;
    stablehlo::Op op;
    op.name = "stablehlo." + name;
    (stablehlo::find_entry(op) ? honoured : refused).insert(name);
  }
  for (const stablehlo::OpEntries* entries : stablehlo::op_entries())
    for (const stablehlo::OpEntry& entry : entries->list)
      if (entry.name.starts_with("chlo.")) chlo.emplace(entry.name.substr(5));
  EXPECT_GT(honoured.size(), 100u);
  EXPECT_EQ(names_on_page("read"), honoured);
  EXPECT_EQ(names_on_page("refused"), refused);
  EXPECT_EQ(names_on_page("chlo"), chlo);
}

TEST(StableHloImport, WrongTypesAreRefused) {
  const auto refused = [](const std::string& body, const std::string& result = "tensor<6xf32>") {
    const auto graph = imported(function("%x: tensor<2x3xf32>", result, body));
    return graph ? ErrorCode::kNone : graph.error().code;
  };
  EXPECT_EQ(refused("  %r = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>"), ErrorCode::kNone);
  EXPECT_EQ(refused("  %r = \"stablehlo.negate\"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>"), ErrorCode::E605);
  for (const char* op : {"cosine", "transpose", "rng_bit_generator"})  // without their results
    EXPECT_NE(refused(std::string("  \"stablehlo.") + op +
                      "\"(%x) : (tensor<2x3xf32>) -> ()\n"
                      "  %r = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>"),
              ErrorCode::kNone)
        << op;
  EXPECT_EQ(refused("  %r = \"stablehlo.reshape\"(%x) : (tensor<2x3xf32>) -> tensor<7xf32>", "tensor<7xf32>"),
            ErrorCode::E605);
}

TEST(StableHloImport, PublicFunctionsByName) {
  const auto with = [](const std::string& names) {
    std::string text;
    for (const char name : names)
      text += fmt::format(
          "func.func {} @{}(%x: tensor<2xf32>) -> (tensor<2xf32> {{jax.result_info = \"of_{}\"}}) {{\n"
          "  return %x : tensor<2xf32>\n}}\n",
          name == 'p' ? "private" : "public", name == 'm' ? "main" : std::string(1, name), name);
    return stablehlo::parse_text(text, "test").value();
  };
  const auto output = [](const stablehlo::Module& module, std::string_view name) {
    const auto graph = import_stablehlo(module, {}, name);
    return graph ? graph->outputs()[0].name : graph.error().to_string();
  };
  EXPECT_EQ(output(with("amb"), ""), "of_m");
  EXPECT_EQ(output(with("amb"), "b"), "of_b");
  EXPECT_EQ(output(with("pa"), ""), "of_a");
  EXPECT_EQ(import_stablehlo(with("apb"), {}, "a")->function().all, (std::vector<std::string>{"a", "b"}));
  for (const char* name : {"", "p", "c"}) {
    const std::string refused = output(with("apb"), name);
    EXPECT_TRUE(refused.starts_with("E709") && refused.find("there are: a, b") != std::string::npos) << refused;
    EXPECT_EQ(stablehlo_problems(with("apb"), {}, name).size(), 1U);
  }
  EXPECT_EQ(import_stablehlo(with("p")).error().code, ErrorCode::E602);
  EXPECT_EQ(survey_stablehlo(with("amb"), "a").outputs[0].first, "of_a");
}

TEST(StableHloImport, FunctionsThatCallThemselvesAreRefused) {
  const auto graph = imported(R"(
func.func public @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = func.call @main(%x) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
})");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::E603);
}

}  // namespace
}  // namespace fettle
