#include <gtest/gtest.h>

#include <cmath>

#include "codegen/kernel_source.h"
#include "codegen/onednn/match.h"
#include "codegen/test_util.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle {
namespace {

using te::Tensor;
using Indices = std::vector<Var>;
using Shape = std::vector<Expr>;

const KernelSourceDef& onednn_source() { return *find_kernel_source("onednn"); }

struct Image {
  int64_t channels = 16, height = 14, width = 10, outs = 32, window = 3, stride = 1, dilation = 1, low = 1, high = 1;
  int64_t groups = 1;
  int64_t out(int64_t extent) const { return (extent + low + high - (window - 1) * dilation - 1) / stride + 1; }
};

/// A convolution as the planner makes it: channels last, the weights as ONNX has them, then bias and relu.
Func convolution(const Image& p) {
  const Tensor x = te::placeholder({p.height, p.width, p.channels}, kF32, "x");
  const int64_t ins = p.channels / p.groups;
  const Tensor w = te::placeholder({p.outs, ins, p.window, p.window}, kF32, "w");
  const Tensor b = te::placeholder({p.outs}, kF32, "b");
  const Tensor padded =
      p.low + p.high > 0 ? te::pad(x, {p.low, p.low, 0}, {p.high, p.high, 0}, float_imm(0), "padded") : x;
  const te::ReduceAxis c = te::reduce_axis(ins, "c"), kh = te::reduce_axis(p.window, "kh"),
                       kw = te::reduce_axis(p.window, "kw");
  const int64_t outs = p.outs / p.groups;
  const Tensor sum = te::compute(
      {p.out(p.height), p.out(p.width), p.outs},
      [&](const Indices& i) {
        const Expr channel = p.groups == 1 ? Expr(c) : floordiv(i[2], outs) * ins + c;
        return te::sum(
            padded(i[0] * p.stride + kh * p.dilation, i[1] * p.stride + kw * p.dilation, channel) * w(i[2], c, kh, kw),
            {c, kh, kw});
      },
      "sum");
  const Tensor y = te::compute(
      {p.out(p.height), p.out(p.width), p.outs},
      [&](const Indices& i) { return max(sum(i[0], i[1], i[2]) + b(i[2]), float_imm(0)); }, "y");
  return te::create_func("conv", {x, w, b}, {y},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}});
}

enum class After { kNothing, kBias, kGelu, kShortcut, kClip, kSwish };

Func product(int64_t m, int64_t n, int64_t k, After after, bool transposed = false, bool constant = true) {
  const Tensor x = te::placeholder({m, k}, kF32, "x");
  const Tensor w = te::placeholder(transposed ? Shape{n, k} : Shape{k, n}, kF32, "w");
  const Tensor b = te::placeholder({n}, kF32, "b"), r = te::placeholder({m, n}, kF32, "r");
  const te::ReduceAxis kk = te::reduce_axis(k, "k");
  const Tensor sum = te::compute(
      {m, n}, [&](const Indices& i) { return te::sum(x(i[0], kk) * (transposed ? w(i[1], kk) : w(kk, i[1])), {kk}); },
      "sum");
  std::vector<Tensor> inputs = {x, w};
  Tensor y = sum;
  const auto biased = [&](const Indices& i) { return sum(i[0], i[1]) + b(i[1]); };
  if (after != After::kNothing) {
    inputs.push_back(b);
    y = te::compute({m, n}, biased, "biased");
  }
  const Tensor before = y;
  const auto at = [&](const Indices& i) { return before(i[0], i[1]); };
  if (after == After::kGelu)
    y = te::compute(
        {m, n},
        [&](const Indices& i) {
          return float_imm(0.5) * at(i) * (float_imm(1) + math("erf", {at(i) * float_imm(0.70710678)}));
        },
        "y");
  if (after == After::kSwish)
    y = te::compute({m, n}, [&](const Indices& i) { return at(i) * math("sigmoid", {at(i)}); }, "y");
  if (after == After::kClip)
    y = te::compute({m, n}, [&](const Indices& i) { return min(max(at(i), float_imm(0)), float_imm(6)); }, "y");
  if (after == After::kShortcut) {
    inputs.push_back(r);
    y = te::compute({m, n}, [&](const Indices& i) { return max(at(i) + r(i[0], i[1]), float_imm(0)); }, "y");
  }
  std::vector<ParamKind> kinds(inputs.size(), ParamKind::kConstant);
  kinds[0] = ParamKind::kInput;
  if (!constant) kinds[1] = ParamKind::kInput;
  if (after == After::kShortcut) kinds.back() = ParamKind::kInput;
  return te::create_func("product", inputs, {y}, {.input_kinds = kinds});
}

/// Scores of attention: heads interleaved with channels.
Func heads(int64_t n, int64_t length, int64_t width) {
  const Tensor q = te::placeholder({length, n, width}, kF32, "q"), k = te::placeholder({length, n, width}, kF32, "k");
  const te::ReduceAxis c = te::reduce_axis(width, "c");
  const Tensor y = te::compute(
      {n, length, length}, [&](const Indices& i) { return te::sum(q(i[1], i[0], c) * k(i[2], i[0], c), {c}); }, "y");
  return te::create_func("heads", {q, k}, {y}, {});
}

Func max_pool(int64_t height, int64_t width, int64_t channels) {
  const Tensor x = te::placeholder({height, width, channels}, kF32, "x");
  const Tensor padded = te::pad(x, {1, 1, 0}, {1, 1, 0}, te::lowest(kF32), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const Tensor y = te::compute(
      {(height - 1) / 2 + 1, (width - 1) / 2 + 1, channels},
      [&](const Indices& i) { return te::max(padded(i[0] * 2 + kh, i[1] * 2 + kw, i[2]), {kh, kw}); }, "y");
  return te::create_func("pool", {x}, {y}, {});
}

/// oneDNN's kernel computes what the plain program does, on so many threads.
void expect_same(const Func& program, int threads) {
  if (const auto version = onednn_source().version(); !version) GTEST_SKIP() << version.error().message;
  const auto target = std::make_shared<const Target>(detect_host(threads));
  const auto offered = offered_schedule(onednn_source(), program, target, threads);
  ASSERT_TRUE(offered) << offered.error().to_string();
  ObjectCache cache;
  const auto built = build_kernel(offered->schedule.func(), *target, cache, {.entry_name = "k"});
  ASSERT_TRUE(built) << built.error().to_string();
  const auto plain = build_kernel(program, *target, cache, {.plain = true, .entry_name = "p"});
  ASSERT_TRUE(plain) << plain.error().to_string();
  const auto expected = testing::run_built(*plain, 1), computed = testing::run_built(*built, threads);
  ASSERT_EQ(computed.size(), expected.size());
  for (size_t i = 0; i < computed.size(); ++i)
    ASSERT_NEAR(computed[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << offered->offer.kernel << " at " << i;
}

void expect_same(const Func& program) {
  for (const int threads : {1, 2, 3}) expect_same(program, threads);
}

TEST(Onednn, Products) {
  for (const After after : {After::kNothing, After::kBias, After::kGelu, After::kShortcut, After::kClip, After::kSwish})
    expect_same(product(50, 96, 40, after));
}
TEST(Onednn, ProductsWithTransposedAndVariableOperands) {
  expect_same(product(50, 96, 40, After::kBias, true));
  expect_same(product(50, 96, 40, After::kNothing, false, false));
  expect_same(product(50, 96, 40, After::kNothing, true, false));
}
TEST(Onednn, OneRowIsSplitByColumns) { expect_same(product(1, 200, 64, After::kBias)); }
TEST(Onednn, BatchedProducts) { expect_same(heads(4, 20, 32)); }
TEST(Onednn, Convolutions) {
  expect_same(convolution({}));
  expect_same(convolution({.stride = 2}));
  expect_same(convolution({.stride = 2, .low = 0, .high = 1}));
  expect_same(convolution({.window = 5, .low = 2, .high = 2}));
  expect_same(convolution({.dilation = 2, .low = 2, .high = 2}));
  expect_same(convolution({.window = 1, .stride = 2, .low = 0, .high = 0}));
  expect_same(convolution({.channels = 3, .window = 7, .stride = 2, .low = 3, .high = 3}));
}
TEST(Onednn, DepthwiseConvolutions) {
  const Tensor x = te::placeholder({14, 10, 32}, kF32, "x"), w = te::placeholder({32, 3, 3}, kF32, "w");
  const Tensor padded = te::pad(x, {1, 1, 0}, {1, 1, 0}, float_imm(0), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const Tensor y = te::compute(
      {14, 10, 32},
      [&](const Indices& i) { return te::sum(padded(i[0] + kh, i[1] + kw, i[2]) * w(i[2], kh, kw), {kh, kw}); }, "y");
  expect_same(te::create_func("depthwise", {x, w}, {y}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}}));
}
TEST(Onednn, SoftmaxAndLayerNorm) {
  expect_same(testing::parsed(R"(
func softmax(x: f32[12, 64], y: f32[12, 64] output):
  alloc m: f32[12]
  alloc e: f32[12, 64]
  alloc s: f32[12]
  for i in 12:
    for k in 64:
      block m(vi: spatial[12] = i, vk: reduce[64] = k):
        reads x[vi, vk]
        writes m[vi]
        init:
          m[vi] = -inf
        m[vi] = ordered_max(x[vi, vk], m[vi])
  for i in 12:
    for j in 64:
      block e(vi: spatial[12] = i, vj: spatial[64] = j):
        reads x[vi, vj], m[vi]
        writes e[vi, vj]
        e[vi, vj] = exp(x[vi, vj] - m[vi])
  for i in 12:
    for k in 64:
      block s(vi: spatial[12] = i, vk: reduce[64] = k):
        reads e[vi, vk]
        writes s[vi]
        init:
          s[vi] = 0.0
        s[vi] = s[vi] + e[vi, vk]
  for i in 12:
    for j in 64:
      block y(vi: spatial[12] = i, vj: spatial[64] = j):
        reads e[vi, vj], s[vi]
        writes y[vi, vj]
        y[vi, vj] = e[vi, vj] / s[vi]
)"));
  expect_same(testing::parsed(R"(
func norm(x: f32[12, 64], w: f32[64] constant, b: f32[64] constant, y: f32[12, 64] output):
  alloc s: f32[12]
  alloc m: f32[12]
  alloc q: f32[12]
  alloc r: f32[12]
  for i in 12:
    for k in 64:
      block s(vi: spatial[12] = i, vk: reduce[64] = k):
        reads x[vi, vk]
        writes s[vi]
        init:
          s[vi] = 0.0
        s[vi] = s[vi] + x[vi, vk]
  for i in 12:
    block m(vi: spatial[12] = i):
      reads s[vi]
      writes m[vi]
      m[vi] = s[vi] * 0.015625
  for i in 12:
    for k in 64:
      block q(vi: spatial[12] = i, vk: reduce[64] = k):
        reads x[vi, vk], m[vi]
        writes q[vi]
        init:
          q[vi] = 0.0
        q[vi] = q[vi] + (x[vi, vk] - m[vi]) * (x[vi, vk] - m[vi])
  for i in 12:
    block r(vi: spatial[12] = i):
      reads q[vi]
      writes r[vi]
      r[vi] = rsqrt(q[vi] * 0.015625 + 1e-5)
  for i in 12:
    for j in 64:
      block y(vi: spatial[12] = i, vj: spatial[64] = j):
        reads x[vi, vj], m[vi], r[vi], w[vj], b[vj]
        writes y[vi, vj]
        y[vi, vj] = (x[vi, vj] - m[vi]) * r[vi] * w[vj] + b[vj]
)"));
}
TEST(Onednn, Pooling) { expect_same(max_pool(15, 12, 32)); }

std::string reason(const Func& program) {
  const auto matched = onednn::match(program);
  return matched ? std::string() : matched.error().message;
}

TEST(Onednn, DeclinesWithAReason) {
  EXPECT_EQ(reason(testing::parsed(R"(
func relu(A: f32[8], B: f32[8] output):
  for i in 8:
    block B(v: spatial[8] = i):
      reads A[v]
      writes B[v]
      B[v] = max(A[v], 0.0)
)")),
            "nothing is summed");
  EXPECT_EQ(reason(testing::parsed(R"(
func sum(A: f32[n, 8], B: f32[n] output, n: i64):
  for i in n:
    for k in 8:
      block B(v: spatial[n] = i, vk: reduce[8] = k):
        reads A[v, vk]
        writes B[v]
        init:
          B[v] = 0.0
        B[v] = B[v] + A[v, vk]
)")),
            "sizes are open");
  EXPECT_EQ(reason(testing::parsed(R"(
func sum(A: f32[4, 8], B: f32[4] output):
  for i in 4:
    for k in 8:
      block B(v: spatial[4] = i, vk: reduce[8] = k):
        reads A[v, vk]
        writes B[v]
        init:
          B[v] = 0.0
        B[v] = B[v] + A[v, vk]
)")),
            "it is no sum of products");
}

}  // namespace
}  // namespace fettle
