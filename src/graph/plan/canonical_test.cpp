#include "graph/plan/canonical.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/text.h"

namespace fettle {
namespace {

Func parsed(const std::string& text) {
  auto func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return *func;
}

/// Runs on inputs 0.5, 1.0, 1.5, …; the content of the output, as it lies.
std::vector<float> run(const Func& func) {
  std::vector<std::vector<float>> buffers;
  std::vector<BufferArg> args;
  for (const Param& param : func->params) {
    int64_t elems = 1;
    for (const Expr& extent : param.buffer->shape) elems *= *as_int(extent);
    std::vector<float> data(static_cast<size_t>(elems), 0);
    if (param.kind != ParamKind::kOutput)
      for (size_t i = 0; i < data.size(); ++i) data[i] = 0.5f * static_cast<float>(i + 1);
    buffers.push_back(std::move(data));
  }
  for (auto& data : buffers) args.push_back({data.data(), static_cast<int64_t>(data.size() * sizeof(float))});
  const auto done = interpret(func, args);
  EXPECT_TRUE(done.has_value()) << (done ? "" : done.error().to_string());
  return buffers.back();
}

constexpr const char* kChain = R"(func f(x0: f32[3, 4], w0: f32[4] constant, w1: f32[1] constant, y: f32[3, 4] output):
  alloc t: f32[3, 4]
  alloc u: f32[3, 4]
  for i in 3:
    for j in 4:
      block t(vi: spatial[3] = i, vj: spatial[4] = j):
        reads x0[vi, vj], w0[vj]
        writes t[vi, vj]
        t[vi, vj] = x0[vi, vj] + w0[vj]
  for i in 3:
    for j in 4:
      block u(vi: spatial[3] = i, vj: spatial[4] = j):
        reads t[vi, vj], w1[0]
        writes u[vi, vj]
        u[vi, vj] = t[vi, vj] * w1[0]
  for i in 3:
    for j in 4:
      block y(vi: spatial[3] = i, vj: spatial[4] = j):
        reads u[vi, vj], t[vi, vj]
        writes y[vi, vj]
        y[vi, vj] = u[vi, vj] * t[vi, vj]
)";

TEST(Canonical, RoundNumbers) {
  for (double x : {0.0, 1.0, -3.0, 0.5, 6.0, 1.0 / 6, 0.1f + 0.0, 1e-5, 255.0, 2.55})
    EXPECT_TRUE(is_round_number(static_cast<float>(x))) << x;
  for (double x : {0.7312345, 1.4142135, 3.14159}) EXPECT_FALSE(is_round_number(static_cast<float>(x))) << x;
}

TEST(Canonical, ScalarsBecomeNumbers) {
  const Func func = parsed(kChain);
  const Func folded = fold_scalars(func, {{func->params[2].buffer.get(), 0.5}});
  EXPECT_EQ(folded->params.size(), 3u);
  EXPECT_TRUE(check_well_formed(folded));
  EXPECT_EQ(run(func), run(folded));
}

TEST(Canonical, ElementwiseBlocksJoin) {
  const Func func = parsed(kChain);
  const Func inlined = inline_blocks(func);
  EXPECT_TRUE(inlined.root().allocations.empty());
  EXPECT_EQ(inlined.root().body.kind(), StmtKind::kFor);
  EXPECT_TRUE(check_well_formed(inlined));
  EXPECT_EQ(run(func), run(inlined));
}

TEST(Canonical, CostlyBlocksThatAreReadTwiceStay) {
  const Func func = parsed(R"(func f(x: f32[8], y: f32[8] output):
  alloc e: f32[8]
  for i in 8:
    block e(vi: spatial[8] = i):
      reads x[vi]
      writes e[vi]
      e[vi] = exp(x[vi])
  for i in 8:
    block y(vi: spatial[8] = i):
      reads e[vi]
      writes y[vi]
      y[vi] = e[vi] / (e[vi] + 1.0)
)");
  EXPECT_EQ(inline_blocks(func).root().allocations.size(), 1u);
}

TEST(Canonical, WhatManyPointsReadStays) {
  const Func func = parsed(R"(func f(x: f32[8, 8], w: f32[8, 8], y: f32[8, 8] output):
  alloc t: f32[8, 8]
  for i in 8:
    for k in 8:
      block t(vi: spatial[8] = i, vk: spatial[8] = k):
        reads x[vi, vk]
        writes t[vi, vk]
        t[vi, vk] = x[vi, vk] + 1.0
  for i in 8:
    for j in 8:
      for k in 8:
        block y(vi: spatial[8] = i, vj: spatial[8] = j, vk: reduce[8] = k):
          reads t[vi, vk], w[vk, vj]
          writes y[vi, vj]
          init:
            y[vi, vj] = 0.0
          y[vi, vj] = y[vi, vj] + t[vi, vk] * w[vk, vj]
)");
  EXPECT_EQ(inline_blocks(func).root().allocations.size(), 1u);
}

TEST(Canonical, OrdersMoveDataAndLoops) {
  const Func func = parsed(R"(func f(x: f32[2, 3, 4], y: f32[2, 3, 4] output):
  for i in 2:
    for j in 3:
      for k in 4:
        block y(vi: spatial[2] = i, vj: spatial[3] = j, vk: spatial[4] = k):
          reads x[vi, vj, vk]
          writes y[vi, vj, vk]
          y[vi, vj, vk] = x[vi, vj, vk] * 2.0
)");
  const BufferOrder last{{0, 2, 1}, {}};
  Func ordered = apply_orders(func, {{func->params[1].buffer.get(), last}});
  EXPECT_EQ(*as_int(ordered->params[1].buffer->shape[1]), 4);
  ordered = order_loops(ordered);
  EXPECT_TRUE(check_well_formed(ordered)) << to_text(ordered);
  const auto* outer = ordered.root().body.as<ForNode>();
  EXPECT_EQ(*as_int(outer->body.as<ForNode>()->extent), 4);
  const std::vector<float> before = run(func), after = run(ordered);
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j)
      for (size_t k = 0; k < 4; ++k) EXPECT_EQ(before[(i * 3 + j) * 4 + k], after[(i * 4 + k) * 3 + j]);
}

TEST(Canonical, LayoutsOfBothSidesMeetInOneProgram) {
  const Func func = parsed(kChain);
  const BufferOrder transposed{{1, 0}, {}};
  const Func inlined = inline_blocks(func);
  const Func ordered = order_loops(apply_orders(
      inlined, {{inlined->params[0].buffer.get(), transposed}, {inlined->params[3].buffer.get(), transposed}}));
  EXPECT_TRUE(check_well_formed(ordered));
  EXPECT_FALSE(structural_equal(inlined, ordered));
  EXPECT_EQ(*as_int(ordered.root().body.as<ForNode>()->extent), 4);
}

}  // namespace
}  // namespace fettle
