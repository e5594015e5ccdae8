#include "generations/autotvm/cost/loop_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/text.h"

namespace fettle {
namespace {

using Row = std::map<std::string, double>;

Func parsed(const std::string& text) {
  auto func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return *func;
}

Row named(const std::vector<float>& values, const std::vector<std::string>& names) {
  EXPECT_EQ(values.size(), names.size());
  Row row;
  for (size_t i = 0; i < values.size(); ++i) row[names[i]] = static_cast<double>(values[i]);
  return row;
}
Row loops_of(const std::string& text) { return named(loop_features(parsed(text)), loop_feature_names()); }
Row curves_of(const std::string& text) { return named(curve_features(parsed(text)), curve_feature_names()); }

double slog(double x) { return std::log2(1 + x); }

// 4x8 by 8x4: 128 multiply-adds. All numbers are worked out by hand.
constexpr const char* kMatmul = R"(lowered func matmul(A: f32[32], B: f32[32], C: f32[16] output):
  for i in 4 parallel:
    for k in 8:
      for j in 4 vectorized:
        C[i * 4 + j] = C[i * 4 + j] + A[i * 8 + k] * B[k * 4 + j]
)";

TEST(LoopFeatures, TheirNamesAreDistinct) {
  EXPECT_EQ(loop_feature_names().size(), kLoopFeatures);
  EXPECT_EQ(curve_feature_names().size(), kCurveFeatures);
  for (std::vector<std::string> names : {loop_feature_names(), curve_feature_names()}) {
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  }
}

TEST(LoopFeatures, OfASmallMatmul) {
  const Row row = loops_of(kMatmul);
  // Of each buffer: bytes, reuse, stride. C is accessed twice an iteration, so it is the first.
  const std::map<std::string, std::vector<double>> expected = {
      {"l0", {4, 0, 1, 32, 64, 16, 16, 128, 4, 32, 128, 4, 0}},
      {"l1", {8, 1, 4, 4, 16, 16, 0, 32, 4, 4, 128, 1, 16}},
      {"l2", {4, 2, 32, 1, 16, 2, 4, 4, 4, 0, 16, 1, 4}},
  };
  const std::vector<std::string> columns = {"extent",   "level",     "topdown",  "bottomup", "b0_bytes",
                                            "b0_reuse", "b0_stride", "b1_bytes", "b1_reuse", "b1_stride",
                                            "b2_bytes", "b2_reuse",  "b2_stride"};
  Row all = {{"l0_parallel", 1}, {"l1_serial", 1}, {"l2_vectorized", 1}};
  for (const auto& [loop, numbers] : expected)
    for (size_t i = 0; i < columns.size(); ++i) all[loop + "_" + columns[i]] = slog(numbers[i]);
  for (const auto& [name, value] : row) EXPECT_NEAR(value, all.contains(name) ? all[name] : 0, 1e-5) << name;
}

TEST(CurveFeatures, OfASmallMatmul) {
  const Row row = curves_of(kMatmul);
  // What one run of a level touches, its reuse, and its runs:
  //             all               C          A          B
  //   program   320 B  6.4    1   64 B 16    128 B 4    128 B 4
  //   k         176 B  32/11  4   16 B 16     32 B 4    128 B 1
  //   j          36 B  16/9  32   16 B  2      4 B 4     16 B 1
  //   statement  12 B  4/3  128    4 B  2      4 B 1      4 B 1
  // Thresholds: 2.8, 8, 22.6, 64, 181, 512, …; the last value of a line stays.
  const std::map<std::string, std::vector<double>> expected = {
      {"all_bytes_by_reuse", {36, 320}},     {"all_reuse_by_bytes", {0, 0, 4.0 / 3, 16.0 / 9, 32.0 / 11, 6.4}},
      {"all_topdown_by_bytes", {0, 0, 128}}, {"all_bytes_by_topdown", {320}},
      {"b0_bytes_by_reuse", {16, 16, 64}},   {"b0_reuse_by_bytes", {0, 2, 16}},
      {"b0_topdown_by_bytes", {0, 128}},     {"b0_bytes_by_topdown", {64}},
      {"b1_bytes_by_reuse", {4, 128}},       {"b1_reuse_by_bytes", {0, 4}},
      {"b1_topdown_by_bytes", {0, 128}},     {"b1_bytes_by_topdown", {128}},
      {"b2_bytes_by_reuse", {128}},          {"b2_reuse_by_bytes", {0, 1, 1, 1, 4}},
      {"b2_topdown_by_bytes", {0, 128}},     {"b2_bytes_by_topdown", {128}},
  };
  Row all;
  for (const auto& [curve, values] : expected)
    for (size_t t = 0; t < kCurveSamples; ++t)
      all[curve + "_" + std::to_string(t + 1)] = slog(values[std::min(t, values.size() - 1)]);
  for (const auto& [name, value] : row)
    if (name.ends_with("_product"))
      all[name] = slog(name == "serial_product"                                     ? 8
                       : name == "parallel_product" || name == "vectorized_product" ? 4
                                                                                    : 1);
  for (const auto& [name, value] : row) EXPECT_NEAR(value, all.contains(name) ? all[name] : 0, 1e-5) << name;
}

TEST(CurveFeatures, LoopsOfOneIterationChangeNothing) {
  const std::string two = R"(lowered func two(X: f32[64], Y: f32[64] output):
  for i in 8:
    allocate T: f32[8]
    for j in 8 unrolled:
      T[j] = exp(X[i * 8 + j])
    for j in 8:
      Y[i * 8 + j] = T[j] * X[j * 8 + i]
)";
  const Row plain = curves_of(two);
  const auto with = [&](const std::string& at, const std::string& indent, const std::string& kind) {
    // A loop around the line and what follows it at its depth or deeper.
    std::string result;
    const size_t start = two.find(at);
    result = two.substr(0, start) + indent + "for u in 1" + kind + ":\n";
    size_t line = start;
    while (line < two.size()) {
      const size_t end = two.find('\n', line) + 1;
      if (two.compare(line, indent.size(), indent) != 0) break;
      result += "  " + two.substr(line, end - line);
      line = end;
    }
    return result + two.substr(line);
  };
  const std::vector<std::string> others = {with("  for i", "  ", ""), with("    allocate", "    ", " parallel"),
                                           with("      T[j]", "      ", " unrolled"),
                                           with("      Y[i", "      ", " vectorized")};
  for (const std::string& other : others) {
    EXPECT_EQ(curves_of(other), plain) << other;
    EXPECT_NE(loops_of(other), loops_of(two));
  }
}

TEST(LoopFeatures, OfAnyProgramAreFiniteAndOfOneWidth) {
  std::string deep = "lowered func deep(X: f32[64], Y: f32[64] output):\n", indent = "  ";
  std::string index = "0";
  for (int i = 0; i < 50; ++i) {
    const std::string var = "v" + std::to_string(i);
    deep += indent + "for " + var + " in 2:\n";
    if (i % 10 == 0) index += " + " + var;
    indent += "  ";
  }
  deep += indent + "Y[" + index + "] = X[" + index + "]\n";
  const std::vector<std::string> programs = {
      deep,
      "lowered func none(X: f32[64], Y: f32[64] output):\n  Y[0] = X[0]\n",
      R"(lowered func symbolic(X: f32[64], I: i64[64], Y: f32[64] output, n: i64 in 1..9):
  for i in n:
    if i < 3:
      for j in i + 1:
        Y[i] = X[I[i + j]]
)",
  };
  for (const std::string& text : programs)
    for (const auto& row : {loop_features(parsed(text)), curve_features(parsed(text))})
      for (const float value : row) EXPECT_TRUE(std::isfinite(value));
  // Of the fifty loops the outermost: all have the same accesses inside.
  const Row row = loops_of(deep);
  EXPECT_NEAR(row.at("l23_level"), slog(23), 1e-5);
  EXPECT_NEAR(row.at("l0_bottomup"), slog(std::exp2(49)), 1e-4);
}

TEST(LoopFeatures, OfManyNestsThoseWithTheMostAccesses) {
  std::string text = "lowered func nests(X: f32[64], Y: f32[64] output):\n";
  for (int i = 1; i <= 30; ++i) {
    const std::string var = "v" + std::to_string(i);
    text += "  for " + var + " in " + std::to_string(i) + ":\n    Y[" + var + "] = X[" + var + "]\n";
  }
  const Row row = loops_of(text);
  for (size_t i = 0; i < kLoopSlots; ++i)
    EXPECT_NEAR(row.at("l" + std::to_string(i) + "_extent"), slog(7 + static_cast<double>(i)), 1e-5);
}

}  // namespace
}  // namespace fettle
