#include "generations/ansor/cost/store_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/text.h"

namespace fettle {
namespace {

std::vector<std::map<std::string, double>> features_of(const std::string& text) {
  const auto func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  const std::vector<float> rows = store_features(*func);
  const auto& names = store_feature_names();
  std::vector<std::map<std::string, double>> result(rows.size() / kStoreFeatures);
  for (size_t i = 0; i < rows.size(); ++i)
    result[i / kStoreFeatures][names[i % kStoreFeatures]] = static_cast<double>(rows[i]);
  return result;
}

double slog(double x) { return std::log2(1 + x); }

TEST(StoreFeatures, TheirNamesAreDistinct) {
  std::vector<std::string> names = store_feature_names();
  EXPECT_EQ(names.size(), kStoreFeatures);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

// A matmul of 4x8 by 8x4: 128 multiply-adds. All numbers are worked out by hand.
TEST(StoreFeatures, OfASmallMatmul) {
  const auto rows = features_of(R"(lowered func matmul(A: f32[32], B: f32[32], C: f32[16] output):
  for i in 4 parallel:
    for k in 8:
      for j in 4 vectorized:
        C[i * 4 + j] = C[i * 4 + j] + A[i * 8 + k] * B[k * 4 + j]
)");
  ASSERT_EQ(rows.size(), 1u);
  std::map<std::string, double> f = rows[0];
  std::map<std::string, double> expected = {
      {"float_mad", slog(128)},
      {"vectorize_loops", slog(1)},
      {"vectorize_product", slog(4)},
      {"vectorize_extent", slog(4)},
      {"vectorize_inner_spatial", 1},
      {"unroll_none", 1},
      {"parallel_loops", slog(1)},
      {"parallel_product", slog(4)},
      {"parallel_extent", slog(4)},
      {"parallel_outer_spatial", 1},
      // A: touched 128 times, each time a line; 32 elements in 2 lines; each used by the 4 iterations of j.
      {"b0_read", 1},
      {"b0_bytes", slog(512)},
      {"b0_unique_bytes", slog(128)},
      {"b0_lines", slog(128)},
      {"b0_unique_lines", slog(2)},
      {"b0_reuse_by_loop", 1},
      {"b0_reuse_iterations", slog(1)},
      {"b0_reuse_bytes", slog(12)},  // an element each
      {"b0_reuse_count", slog(4)},
      {"b0_bytes_a_use", slog(128)},
      {"b0_unique_bytes_a_use", slog(32)},
      {"b0_lines_a_use", slog(32)},
      {"b0_unique_lines_a_use", slog(0.5)},
      {"b0_stride", slog(1)},
      // B: in runs, so 16 touches a line; used again by i, after all of k and j: 4 of C, 8 of A, 32 of B.
      {"b1_read", 1},
      {"b1_bytes", slog(512)},
      {"b1_unique_bytes", slog(128)},
      {"b1_lines", slog(8)},
      {"b1_unique_lines", slog(2)},
      {"b1_reuse_by_loop", 1},
      {"b1_reuse_iterations", slog(32)},
      {"b1_reuse_bytes", slog(176)},
      {"b1_reuse_count", slog(4)},
      {"b1_bytes_a_use", slog(128)},
      {"b1_unique_bytes_a_use", slog(32)},
      {"b1_lines_a_use", slog(2)},
      {"b1_unique_lines_a_use", slog(0.5)},
      {"b1_stride", slog(1)},
      // C: used again by k, after j: 4 of C, 1 of A, 4 of B.
      {"b2_read_write", 1},
      {"b2_bytes", slog(512)},
      {"b2_unique_bytes", slog(64)},
      {"b2_lines", slog(8)},
      {"b2_unique_lines", slog(1)},
      {"b2_reuse_by_loop", 1},
      {"b2_reuse_iterations", slog(4)},
      {"b2_reuse_bytes", slog(36)},
      {"b2_reuse_count", slog(8)},
      {"b2_bytes_a_use", slog(64)},
      {"b2_unique_bytes_a_use", slog(8)},
      {"b2_lines_a_use", slog(1)},
      {"b2_unique_lines_a_use", slog(0.125)},
      {"b2_stride", slog(1)},
      {"outer_product", slog(128)},
      {"loops", slog(3)},
  };
  for (size_t b = 3; b < 5; ++b)  // what is not there
    for (const char* none : {"_bytes_a_use", "_unique_bytes_a_use", "_lines_a_use", "_unique_lines_a_use"})
      expected["b" + std::to_string(b) + none] = 0;
  // Operations for each byte: 8 / 36 within j, 64 / 176 within k, 256 / 320 in all; in between in proportion.
  const double points[][2] = {{8, 8 / 36.0}, {64, 64 / 176.0}, {256, 256 / 320.0}};
  for (int i = 0; i < 10; ++i) {
    const double operations = 25.6 * (i + 1);
    const auto& [x0, y0] = points[operations <= 64 ? 0 : 1];
    const auto& [x1, y1] = points[operations <= 64 ? 1 : 2];
    expected["intensity_" + std::to_string(i)] = slog(y0 + (y1 - y0) * (operations - x0) / (x1 - x0));
  }
  for (const std::string& name : store_feature_names())
    EXPECT_NEAR(f[name], expected.contains(name) ? expected[name] : 0, 1e-5) << name;
}

TEST(StoreFeatures, OneRowForEachStore) {
  const auto rows = features_of(R"(lowered func two(X: f32[64], Y: f32[64] output):
  for i in 8:
    allocate T: f32[8]
    for j in 8 unrolled:
      T[j] = exp(X[i * 8 + j])
    for j in 8:
      Y[i * 8 + j] = select(X[i * 8 + j] < 0.0, T[j], T[j] / 2.0)
)");
  ASSERT_EQ(rows.size(), 2u);
  auto first = rows[0], second = rows[1];
  EXPECT_NEAR(first["float_math"], slog(64), 1e-5);
  EXPECT_NEAR(first["unroll_extent"], slog(8), 1e-5);
  EXPECT_NEAR(first["alloc_bytes"], slog(32), 1e-5);
  EXPECT_NEAR(first["alloc_outer_product"], slog(8), 1e-5);
  EXPECT_NEAR(first["alloc_inner_product"], slog(8), 1e-5);
  EXPECT_NEAR(first["alloc_product"], slog(256), 1e-5);
  EXPECT_NEAR(second["select_op"], slog(64), 1e-5);
  EXPECT_NEAR(second["float_cmp"], slog(64), 1e-5);
  EXPECT_NEAR(second["float_divmod"], slog(64), 1e-5);
  EXPECT_EQ(second["alloc_bytes"], 0);
}

}  // namespace
}  // namespace fettle
