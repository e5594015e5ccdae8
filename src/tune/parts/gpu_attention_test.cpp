#include "tune/parts/gpu_attention.h"

#include <cmath>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/testing.h"
#include "schedule/reformulation.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

using testing::TestSchedule;

struct Problem {
  int64_t heads = 2, queries = 128, keys = 128, width = 64, value_width = 64;
  std::string type = "f16";
  bool causal = false;
};

Func attention(const Problem& p) {
  const std::string x = p.causal ? "select(vj <= vi, X[vh, vi, vj] * f32(W[]), -inf)" : "X[vh, vi, vj] * f32(W[])";
  const std::string text = fmt::format(
      R"(func attention(Q: {5}[{0}, {1}, {3}], K: {5}[{0}, {2}, {3}], W: {5}[] constant, V: {5}[{0}, {2}, {4}], R: {5}[{0}, {1}, {4}] output):
  alloc X: f32[{0}, {1}, {2}]
  alloc M: f32[{0}, {1}]
  alloc E: f32[{0}, {1}, {2}]
  alloc S: f32[{0}, {1}]
  alloc P: f32[{0}, {1}, {2}]
  alloc O: f32[{0}, {1}, {4}]
  for h in {0}:
    for i in {1}:
      for j in {2}:
        for k in {3}:
          block X(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j, vk: reduce[{3}] = k):
            reads Q[vh, vi, vk], K[vh, vj, vk]
            writes X[vh, vi, vj]
            init:
              X[vh, vi, vj] = 0.0
            X[vh, vi, vj] = X[vh, vi, vj] + f32(Q[vh, vi, vk]) * f32(K[vh, vj, vk])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block M(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: reduce[{2}] = j):
          reads X[vh, vi, vj], W[]
          writes M[vh, vi]
          init:
            M[vh, vi] = -inf
          M[vh, vi] = ordered_max({6}, M[vh, vi])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block E(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j):
          reads X[vh, vi, vj], W[], M[vh, vi]
          writes E[vh, vi, vj]
          E[vh, vi, vj] = exp({6} - M[vh, vi])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block S(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: reduce[{2}] = j):
          reads E[vh, vi, vj]
          writes S[vh, vi]
          init:
            S[vh, vi] = 0.0
          S[vh, vi] = S[vh, vi] + E[vh, vi, vj]
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block P(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j):
          reads E[vh, vi, vj], S[vh, vi]
          writes P[vh, vi, vj]
          P[vh, vi, vj] = E[vh, vi, vj] / S[vh, vi]
  for h in {0}:
    for i in {1}:
      for e in {4}:
        for j in {2}:
          block O(vh: spatial[{0}] = h, vi: spatial[{1}] = i, ve: spatial[{4}] = e, vj: reduce[{2}] = j):
            reads P[vh, vi, vj], V[vh, vj, ve]
            writes O[vh, vi, ve]
            init:
              O[vh, vi, ve] = 0.0
            O[vh, vi, ve] = O[vh, vi, ve] + P[vh, vi, vj] * f32(V[vh, vj, ve])
  for h in {0}:
    for i in {1}:
      for e in {4}:
        block R(vh: spatial[{0}] = h, vi: spatial[{1}] = i, ve: spatial[{4}] = e):
          reads O[vh, vi, ve]
          writes R[vh, vi, ve]
          R[vh, vi, ve] = {5}(O[vh, vi, ve])
)",
      p.heads, p.queries, p.keys, p.width, p.value_width, p.type, x);
  const auto made = parse_func(text);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

TestSchedule scheduled(const Problem& problem) {
  TestSchedule s(attention(problem), 0);
  s.set_target(std::make_shared<Target>(*parse_target("cuda -arch sm_80")));
  const auto parts = attention_parts(s.func());
  FETTLE_CHECK(parts);
  EXPECT_OK(gpu_attention(s, *s.target(), *parts));
  EXPECT_OK(verify(s.func(), *s.target(), {.races = false}));
  return s;
}

// What the program computes of halves about 1, in the interpreter.
std::vector<float> computed(const Func& func) {
  std::vector<std::vector<uint16_t>> memory;
  std::vector<BufferArg> args;
  uint32_t state = 1;
  for (const Param& param : func->params) {
    int64_t elements = 1;
    for (const Expr& extent : param.buffer->shape) elements *= *as_int(extent);
    auto& values = memory.emplace_back(static_cast<size_t>(elements));
    for (uint16_t& value : values) {
      state = state * 1664525 + 1013904223;
      // ±1 to ±1.9, or 1/8 of a scale
      const bool is_half = param.buffer->dtype == kF16;
      value = static_cast<uint16_t>((is_half ? 0x3c00 : 0x3f80) | (state >> 31 << 15) |
                                    (state >> 20 & (is_half ? 0x3ff : 0x7f)));
      if (elements == 1) value = is_half ? 0x3000 : 0x3e00;
    }
  }
  for (auto& values : memory) args.push_back({values.data(), static_cast<int64_t>(values.size() * 2)});
  EXPECT_OK(interpret(func, args));
  std::vector<float> result;
  for (const uint16_t value : memory.back()) {
    const int exponent = func->params.back().buffer->dtype == kF16 ? value >> 10 & 31 : value >> 7 & 255;
    const bool is_half = func->params.back().buffer->dtype == kF16;
    const int bits = is_half ? 10 : 7, bias = is_half ? 15 : 127;
    const float fraction = static_cast<float>(value & ((1 << bits) - 1)) / static_cast<float>(1 << bits);
    result.push_back((value >> 15 ? -1.0f : 1.0f) * std::ldexp(1 + fraction, exponent - bias));
  }
  return result;
}

TEST(GpuAttention, KeepsTheMeaning) {
  for (const Problem& problem : {Problem{.queries = 64, .width = 16, .value_width = 32},
                                 Problem{.queries = 128, .width = 32, .value_width = 16, .causal = true},
                                 Problem{.queries = 64, .keys = 64, .width = 16, .value_width = 48, .type = "bf16"}}) {
    const TestSchedule s = scheduled(problem);
    const std::vector<float> expected = computed(s.original), made = computed(s.func());
    ASSERT_EQ(expected.size(), made.size());
    for (size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], expected[i], problem.type == "f16" ? 4e-3 : 3e-2) << problem.type << " element " << i;
    EXPECT_EQ(numerics_of(s.func()), Numerics::kApproximate);
    EXPECT_SAME_ON_CUDA(s);
  }
}

TEST(GpuAttention, IsOneKernelWithoutScoresInMemory) {
  for (const bool causal : {false, true}) {
    const TestSchedule s = scheduled({.queries = 256, .keys = 256, .causal = causal});
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    ASSERT_EQ(program->kernels.size(), 1u);
    const std::string text = to_text(*program);
    EXPECT_NE(text.find("load_b_nk_swizzled"), std::string::npos) << text;
    EXPECT_NE(text.find("lane_value"), std::string::npos);
    // Hidden blocks of keys are not read.
    EXPECT_EQ(to_text(s.trace()).find("skip_hidden") != std::string::npos, causal);
    const DeviceKernel& kernel = program->kernels.begin()->second;
    EXPECT_EQ(kernel.block, (std::array<int64_t, 3>{4, 8, 4}));
    EXPECT_EQ(kernel.shared_bytes, (64 + 2 * 2 * 64) * 64 * 2);  // Q, and two blocks of K and of V
    const auto source = emit_cuda(*program);
    ASSERT_OK(source);
    if (has_nvrtc() && !causal) {
      EXPECT_OK(compile_cuda(*source, "sm_80"));
    }
  }
}

TEST(GpuAttention, LeavesWhatTilesDoNotDivide) {
  const auto cuda = *parse_target("cuda -arch sm_80");
  for (const Problem& problem : {Problem{.width = 24}, Problem{.value_width = 24}, Problem{.type = "f32"}}) {
    const Func func = attention(problem);
    const auto parts = attention_parts(func);
    EXPECT_TRUE(!parts || !tensor_attention_type(func, *parts, cuda));
  }
  const Func func = attention({});
  EXPECT_TRUE(tensor_attention_type(func, *attention_parts(func), cuda));
  EXPECT_FALSE(tensor_attention_type(func, *attention_parts(func), *parse_target("opencl")));
}

TEST(GpuAttention, IsTheDefault) {
  const auto target = std::make_shared<const Target>(*parse_target("cuda -arch sm_80"));
  const auto s = default_schedule(attention({}), target, 1);
  ASSERT_OK(s);
  EXPECT_NE(to_text(s->trace()).find("narrow_factor"), std::string::npos);
  const auto exact = default_schedule(attention({}), target, 1, nullptr, 100);
  ASSERT_OK(exact);
  EXPECT_EQ(to_text(exact->trace()).find("narrow_factor"), std::string::npos);
}

}  // namespace
}  // namespace fettle
