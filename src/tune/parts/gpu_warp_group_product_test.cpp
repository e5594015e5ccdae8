// Products by warp groups: what they compute, beside the interpreter; NVRTC takes them.
#include "tune/parts/gpu_warp_group_product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/testing.h"
#include "ir/query.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

using testing::TestSchedule;

struct Case {
  int64_t batch = 0, m = 0, n = 0, k = 0;
  const char* type = "bf16";
  const char* result = "bf16";
  bool transposed = false;
  const char* value = "T[vb, vi, vj]";  // of what reads the sums T
};

// C[b, i, j] += f32(A[b, i, k]) * f32(B[b, k, j]), or B[b, j, k]; D = f(C), bias R[j], residual S[i, j].
Func product(const Case& c) {
  const auto with_batch = [&](const char* rest) { return (c.batch > 0 ? "vb, " : "") + std::string(rest); };
  const auto shape = [&](int64_t rows, int64_t columns) {
    return c.batch > 0 ? fmt::format("{}, {}, {}", c.batch, rows, columns) : fmt::format("{}, {}", rows, columns);
  };
  const std::string at = with_batch("vi, vj"), b = c.transposed ? with_batch("vj, vk") : with_batch("vk, vj");
  std::string value = c.value;
  if (c.batch == 0)
    for (size_t p = value.find("vb, "); p != std::string::npos; p = value.find("vb, ")) value.erase(p, 4);
  std::string text = fmt::format(
      "func product(A: {0}[{1}], B: {0}[{2}], R: f32[{3}], S: {0}[{4}], D: {5}[{4}] output):\n  alloc T: f32[{4}]\n",
      c.type, shape(c.m, c.k), c.transposed ? shape(c.n, c.k) : shape(c.k, c.n), c.n, shape(c.m, c.n), c.result);
  const std::string outer = c.batch > 0 ? fmt::format("for b in {}:\n", c.batch) : "";
  const std::string batch_iter = c.batch > 0 ? fmt::format("vb: spatial[{}] = b, ", c.batch) : "";
  const std::string reads = value.find("R[") != std::string::npos ? ", R[vj]" : "";
  const std::string reads_s = value.find("S[") != std::string::npos ? fmt::format(", S[{}]", at) : "";
  const std::string in = c.batch > 0 ? "  " : "";
  if (c.batch > 0) text += "  " + outer;
  text += fmt::format(
      "{0}  for i in {1}:\n{0}    for j in {2}:\n{0}      for k in {3}:\n"
      "{0}        block T({4}vi: spatial[{1}] = i, vj: spatial[{2}] = j, vk: reduce[{3}] = k):\n"
      "{0}          reads A[{5}], B[{6}]\n{0}          writes T[{7}]\n{0}          init:\n{0}            T[{7}] = 0.0\n"
      "{0}          T[{7}] = T[{7}] + f32(A[{5}]) * f32(B[{6}])\n",
      in, c.m, c.n, c.k, batch_iter, with_batch("vi, vk"), b, at);
  if (c.batch > 0) text += "  " + outer;
  text += fmt::format(
      "{0}  for i in {1}:\n{0}    for j in {2}:\n"
      "{0}      block D({3}vi: spatial[{1}] = i, vj: spatial[{2}] = j):\n"
      "{0}        reads T[{4}]{5}{6}\n{0}        writes D[{4}]\n{0}        D[{4}] = {7}({8})\n",
      in, c.m, c.n, batch_iter, at, reads, reads_s, c.result, value);
  const auto made = parse_func(text);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string() + "\n" + text);
  return *made;
}

std::shared_ptr<const Target> hopper() { return std::make_shared<const Target>(*parse_target("cuda -arch sm_90a")); }

size_t number_of(const WarpGroupTiling& wanted) {
  const auto all = warp_group_tilings();
  for (size_t n = 0; n < all.size(); ++n)
    if (describe(all[n]) == describe(wanted)) return n;
  ADD_FAILURE() << "no such tiling";
  return 0;
}

// The product in this tiling computes what the program does, is one kernel, and CUDA C++ that NVRTC takes.
void check(const Case& c, const WarpGroupTiling& tiling, bool in_bulk) {
  SCOPED_TRACE(fmt::format("{} x {} x {} {} {}: {}", c.m, c.n, c.k, c.type, c.result, describe(tiling)));
  TestSchedule s(product(c), 0);
  s.set_target(hopper());
  PreferringDecider decider({.values = {{"tile", static_cast<int64_t>(number_of(tiling))}}});
  const auto finished = gpu_warp_group_product(s, *s.target(), decider, s.block("T"));
  ASSERT_OK(finished);
  EXPECT_NE(std::ranges::find(*finished, "T"), finished->end());
  EXPECT_NE(std::ranges::find(*finished, "D"), finished->end());
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *s.target()));
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  ASSERT_EQ(program->kernels.size(), 1u) << to_text(*program);
  const DeviceKernel& kernel = program->kernels.begin()->second;
  EXPECT_EQ(kernel.cluster, tiling.cluster);
  EXPECT_EQ(kernel.tensor_maps.size(), in_bulk ? 3u : 2u);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  if (c.k > WarpGroupTiling::kTermsOfStep) {  // turns of the ring stay a loop
    EXPECT_NE(source->find("#pragma unroll 1\n"), std::string::npos) << *source;
  }
  if (has_nvrtc()) {
    EXPECT_OK(compile_cuda(*source, "sm_90a"));
  }
  EXPECT_SAME_ON_CUDA(s);
}

TEST(GpuWarpGroupProduct, TakesWhatIsDoneToItsElementsAlong) {
  const char* epilogue = "max(T[vb, vi, vj] + R[vj], 0.0) + f32(S[vb, vi, vj])";
  check({.m = 64, .n = 128, .k = 128, .type = "f16", .result = "f16", .value = epilogue}, {64, 128, 1, 8}, true);
  check({.m = 64, .n = 64, .k = 64, .result = "f32", .transposed = true, .value = epilogue}, {64, 64, 1, 8}, true);
}

TEST(GpuWarpGroupProduct, FillsUpWhatTilesDoNotDivide) {
  check({.m = 100, .n = 72, .k = 40}, {64, 64, 1, 8}, true);
  check({.m = 2, .n = 72, .k = 136, .transposed = true}, {64, 64, 1, 8}, true);
  check({.m = 3, .n = 50, .k = 64, .transposed = true}, {64, 64, 1, 8}, false);  // rows of 100 bytes
}

TEST(GpuWarpGroupProduct, SeveralWarpGroupsAndBlocksOfClusters) {
  check({.m = 130, .n = 128, .k = 64}, {192, 128, 3, 5}, true);
  check({.m = 128, .n = 256, .k = 64, .transposed = true}, {128, 256, 2, 4, 2}, true);
  check({.m = 64, .n = 256, .k = 128}, {64, 128, 1, 8, 2, true}, true);
  check({.m = 64, .n = 128, .k = 64}, {64, 64, 1, 6, 1, false, 2}, true);
}

// Stores to shared memory that a condition keeps from being made.
int guarded_stores(const Case& c) {
  TestSchedule s(product(c), 0);
  s.set_target(hopper());
  PreferringDecider decider;
  EXPECT_OK(gpu_warp_group_product(s, *s.target(), decider, s.block("T")));
  const auto program = lower_for_device(s.func(), *s.target());
  EXPECT_OK(program);
  int count = 0;
  each_node<IfNode>(program->kernels.begin()->second.func->body, [&](const IfNode& guard) {
    if (guard.else_body) return;  // who copies, and who computes
    each_node<StoreNode>(guard.then_body, [&](const StoreNode& store) { count += store.buffer->scope == "shared"; });
  });
  return count;
}

TEST(GpuWarpGroupProduct, WhatTheCopyEngineLeavesOutIsStagedWithoutGuards) {
  EXPECT_EQ(guarded_stores({.m = 100, .n = 72, .k = 40}), 0);
  EXPECT_GT(guarded_stores({.m = 100, .n = 72, .k = 40, .value = "T[vb, vi, vj] + f32(S[vb, vi, vj])"}), 0);
}

TEST(GpuWarpGroupProduct, OfABatch) {
  check({.batch = 3, .m = 64, .n = 72, .k = 64, .type = "f16", .result = "f16"}, {64, 64, 1, 8}, true);
  check({.batch = 2, .m = 70, .n = 64, .k = 72, .result = "f32", .transposed = true}, {64, 64, 1, 8}, true);
}

TEST(GpuWarpGroupProduct, EveryTilingCompiles) {
  for (size_t n = 0; n < warp_group_tilings().size(); ++n) {
    const WarpGroupTiling& t = warp_group_tilings()[n];
    SCOPED_TRACE(describe(t));
    TestSchedule s(product({.m = 8 * t.rows, .n = 4 * t.columns, .k = 512}), 0);
    s.set_target(hopper());
    PreferringDecider decider({.values = {{"tile", static_cast<int64_t>(n)}}});
    ASSERT_OK(gpu_warp_group_product(s, *s.target(), decider, s.block("T")));
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    const auto source = emit_cuda(*program);
    ASSERT_OK(source);
    if (has_nvrtc()) {
      EXPECT_OK(compile_cuda(*source, "sm_90a"));
    }
  }
}

TEST(GpuWarpGroupProduct, RefusesWhatTheCopyEngineCannotRead) {
  for (const Case& c : {Case{.m = 64, .n = 64, .k = 66}, Case{.m = 64, .n = 68, .k = 64}}) {
    TestSchedule s(product(c), 0);
    s.set_target(hopper());
    PreferringDecider decider;
    EXPECT_ERROR(gpu_warp_group_product(s, *s.target(), decider, s.block("T")), E230);
  }
}

TEST(GpuWarpGroupProduct, ThePredictionPrefersTilesThatFitTheShape) {
  const auto best = [](const ProductShape& shape) {
    return warp_group_tilings()[fastest_tilings(shape, *hopper()).front()];
  };
  EXPECT_EQ(best({1, 4096, 4096, 4096}).rows * best({1, 4096, 4096, 4096}).columns, 128 * 256);
  EXPECT_EQ(best({1, 64, 4096, 4096}).columns, 64);     // as many blocks as there may be read B
  EXPECT_GT(best({1, 3000, 1000, 5000}).cluster, 1);    // rows that do not begin at lines are copied once
  EXPECT_EQ(best({1, 256, 11008, 4096}).columns, 192);  // one turn of nearly all multiprocessors
}

TEST(GpuWarpGroupProduct, IsTheDefaultOfLargeProductsOnly) {
  const auto tensor_maps = [](const Case& c) {
    const auto s = default_schedule(product(c), hopper(), 1);
    EXPECT_OK(s);
    const auto program = lower_for_device(s->func(), *hopper());
    EXPECT_OK(program);
    return program->kernels.size() == 1 ? program->kernels.begin()->second.tensor_maps.size() : 0;
  };
  EXPECT_EQ(tensor_maps({.m = 1024, .n = 1024, .k = 1024, .type = "f16", .result = "f16"}), 3u);
  EXPECT_EQ(tensor_maps({.m = 1024, .n = 1024, .k = 12, .type = "f16", .result = "f16"}), 0u);
}

}  // namespace
}  // namespace fettle
