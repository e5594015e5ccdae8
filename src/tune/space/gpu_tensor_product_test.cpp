// Products of 16 bits on the tensor cores of a GPU: what the constructed default makes of them, beside the interpreter.

#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "ir/text.h"
#include "lower/device/device.h"
#include "schedule/testing.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

struct Case {
  std::string name, text;
  size_t kernels = 1;
  std::string has;  // in the lowered program, beside the products
};

std::string product(int64_t m, int64_t n, int64_t k, const std::string& type, bool left_transposed = false,
                    bool right_transposed = false) {
  return fmt::format(R"(
func product(A: {3}[{4}], B: {3}[{5}], Bias: {3}[{1}], D: {3}[{0}, {1}] output):
  alloc C: f32[{0}, {1}]
  for i in {0}:
    for j in {1}:
      for k in {2}:
        block C(vi: spatial[{0}] = i, vj: spatial[{1}] = j, vk: reduce[{2}] = k):
          reads A[{6}], B[{7}]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + f32(A[{6}]) * f32(B[{7}])
  for i in {0}:
    for j in {1}:
      block D(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads C[vi, vj], Bias[vj]
        writes D[vi, vj]
        D[vi, vj] = {3}(max(C[vi, vj] + f32(Bias[vj]), 0.0))
)",
                     m, n, k, type, left_transposed ? fmt::format("{}, {}", k, m) : fmt::format("{}, {}", m, k),
                     right_transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
                     left_transposed ? "vk, vi" : "vi, vk", right_transposed ? "vj, vk" : "vk, vj");
}

// Channels last, the terms of the weights contiguous.
std::string convolution(int64_t size, int64_t in, int64_t out, int64_t window, int64_t stride) {
  const int64_t pad = window / 2, made = (size + 2 * pad - window) / stride + 1;
  return fmt::format(R"(
func convolution(X: f16[{0}, {0}, {1}], W: f16[{2}, {3}, {3}, {1}], D: f16[{7}, {7}, {2}] output):
  alloc P: f16[{4}, {4}, {1}]
  alloc C: f32[{7}, {7}, {2}]
  for h in {4}:
    for w in {4}:
      for c in {1}:
        block P(vh: spatial[{4}] = h, vw: spatial[{4}] = w, vc: spatial[{1}] = c):
          reads X[vh - {5}, vw - {5}, vc]
          writes P[vh, vw, vc]
          P[vh, vw, vc] = select({5} <= vh && vh < {6} && {5} <= vw && vw < {6}, X[vh - {5}, vw - {5}, vc], f16(0.0))
  for h in {7}:
    for w in {7}:
      for o in {2}:
        for c in {1}:
          for y in {3}:
            for x in {3}:
              block C(vh: spatial[{7}] = h, vw: spatial[{7}] = w, vo: spatial[{2}] = o, vc: reduce[{1}] = c, vy: reduce[{3}] = y, vx: reduce[{3}] = x):
                reads P[vh * {8} + vy, vw * {8} + vx, vc], W[vo, vy, vx, vc]
                writes C[vh, vw, vo]
                init:
                  C[vh, vw, vo] = 0.0
                C[vh, vw, vo] = C[vh, vw, vo] + f32(P[vh * {8} + vy, vw * {8} + vx, vc]) * f32(W[vo, vy, vx, vc])
  for h in {7}:
    for w in {7}:
      for o in {2}:
        block D(vh: spatial[{7}] = h, vw: spatial[{7}] = w, vo: spatial[{2}] = o):
          reads C[vh, vw, vo]
          writes D[vh, vw, vo]
          D[vh, vw, vo] = f16(max(C[vh, vw, vo], 0.0))
)",
                     size, in, out, window, size + 2 * pad, pad, size + pad, made, stride);
}

// Rows and columns of the factors around a batch: "vb, vi, vk".
std::string batched(const std::string& left, const std::string& right, const std::string& result) {
  const auto shape = [](std::string indices) {
    for (const auto& [var, extent] : {std::pair{"vb", "3"}, {"vi", "64"}, {"vj", "72"}, {"vk", "64"}})
      if (const size_t at = indices.find(var); at != std::string::npos) indices.replace(at, 2, extent);
    return indices;
  };
  return fmt::format(R"(
func products(A: f16[{3}], B: f16[{4}], C: f32[{5}] output):
  for b in 3:
    for i in 64:
      for j in 72:
        for k in 64:
          block C(vb: spatial[3] = b, vi: spatial[64] = i, vj: spatial[72] = j, vk: reduce[64] = k):
            reads A[{0}], B[{1}]
            writes C[{2}]
            init:
              C[{2}] = 0.0
            C[{2}] = C[{2}] + f32(A[{0}]) * f32(B[{1}])
)",
                     left, right, result, shape(left), shape(right), shape(result));
}

std::vector<Case> cases() {
  return {
      {"plain", product(128, 64, 64, "f16"), 1, "async_copy"},
      {"bf16", product(128, 128, 192, "bf16"), 1, "load_b_swizzled"},
      {"columns_of_the_left", product(128, 128, 128, "f16", true, false), 1, "load_a_km_swizzled"},
      {"rows_of_the_right", product(128, 128, 128, "f16", false, true), 1, "load_b_nk_swizzled"},
      {"odd", product(197, 72, 104, "f16"), 1, "select("},
      {"unaligned", product(33, 45, 51, "f16"), 1, ""},
      {"long", product(16, 64, 2048, "f16"), 2, "async_copy"},
      {"convolution", convolution(8, 64, 32, 3, 1), 1, "async_copy.i32(&P_reindex"},
      {"strided_convolution", convolution(10, 32, 64, 3, 2), 1, "async_copy.i32(&P_reindex"},
      {"batched", batched("vi, vb, vk", "vj, vb, vk", "vb, vi, vj"), 1, "load_b_nk_swizzled"},
      {"batch_inside", batched("vb, vi, vk", "vk, vb, vj", "vi, vb, vj"), 1, "load_b_swizzled"},
  };
}

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class GpuTensorProducts : public ::testing::TestWithParam<Case> {};

TEST_P(GpuTensorProducts, AgreeWithTheInterpreterAndCompile) {
  const auto func = parse_func(GetParam().text);
  ASSERT_OK(func);
  const auto target = std::make_shared<const Target>(parse_target("cuda -arch sm_90").value());
  const auto s = default_schedule(*func, target, 1);
  ASSERT_OK(s);
  ASSERT_OK(verify(s->func(), *target)) << to_text(s->func());
  const auto program = lower_for_device(s->func(), *target);
  ASSERT_OK(program) << to_text(s->func());
  const std::string text = to_text(*program);
  EXPECT_NE(text.find("mma_m16n8k16_"), std::string::npos) << text;
  EXPECT_NE(text.find(GetParam().has), std::string::npos) << text;
  if (GetParam().kernels > 0) {
    EXPECT_EQ(program->kernels.size(), GetParam().kernels) << text;
  }
  EXPECT_TRUE(testing::same_result(*func, s->func())) << to_text(s->func());
  const auto source = emit_cuda(*program);
  ASSERT_OK(source) << text;
  if (!has_nvrtc()) return;
  EXPECT_OK(compile_cuda(*source, "sm_90")) << *source;
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuTensorProducts, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
