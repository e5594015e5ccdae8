#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "cost/loop_tree/loop_tree.h"
#include "cost/predict/canonical_micro_kernels.h"
#include "cost/predict/traffic.h"
#include "ir/text.h"
#include "lower/lower.h"

namespace fettle {
namespace {

Target plain_target() {
  auto target = parse_target("x86-64-avx512");
  EXPECT_TRUE(target.has_value());
  return *target;
}

LoopTree tree_of(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().to_string());
  return make_loop_tree(*module, plain_target());
}

const CostNode* first_body(const CostNode& node) {
  if (node.kind == CostNode::Kind::kBody) return &node;
  for (const CostNode& child : node.children)
    if (const CostNode* found = first_body(child)) return found;
  return nullptr;
}

// A step of two by two tiles: each load is 16 vectors, a stride of rows apart.
TEST(LoopTree, TilesOfATileUnit) {
  const LoopTree tree = tree_of(R"(
entry lowered func product(A: bf16[65536], B: bf16[65536]):
  for k in 32:
    llvm.x86.tileloadd64.i32(4, &A[k * 32], 2048)
    llvm.x86.tileloaddt164.i32(5, &B[k * 512], 64)
    llvm.x86.tdpbf16ps.i32(0, 4, 5)
    llvm.x86.tileloadd64.i32(6, &A[k * 32 + 16384], 2048)
    llvm.x86.tdpbf16ps.i32(1, 6, 5)
)");
  const CostNode* body = first_body(tree.root);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ(body->work.tile_products, 2);
  EXPECT_EQ(body->work.loads, 48);
  EXPECT_EQ(body->work.flops, 2 * 2 * 16 * 16 * 32);
  EXPECT_EQ(body->work.arithmetic, 0);
  ASSERT_EQ(body->streams.size(), 2u);
  for (const Stream& stream : body->streams) {
    const bool is_a = tree.buffers[static_cast<size_t>(stream.buffer)].name == "A";
    EXPECT_EQ(stream.accesses, is_a ? 32 : 16);
    EXPECT_EQ(stream.run_bytes, is_a ? 64 : 1024);
    EXPECT_EQ(stream.step_bytes.back(), is_a ? 64 : 1024);
  }
}

// 197 rows as 2 tiles of 14 and 13 of 13; a trip count that is smaller at both ends.
constexpr const char* kDispatch = R"(
entry lowered func nest(A: f32[151296], C: f32[151296] output):
  for j in 24:
    for i in 15:
      if i < 2:
        call tall(&A[i * 9984 + min(i, 2) * 768], &C[i * 9984 + min(i, 2) * 768 + j * 32], 768)
      else:
        call low(&A[i * 9984 + min(i, 2) * 768], &C[i * 9984 + min(i, 2) * 768 + j * 32], 768)
  for y in 56:
    call tall(&A[y * 16], &C[y * 16], min(57 - y, 3) - max(1 - y, 0))

lowered func tall(p: f32[1000000], q: f32[1000000] output, n: i64 in 1..):
  for k in n:
    q[k] = q[k] + p[k] * 2.0

lowered func low(p: f32[1000000], q: f32[1000000] output, n: i64 in 1..):
  for k in n:
    q[k] = q[k] + p[k] * 3.0
)";

// Which micro-kernels are called, with what arguments, and how often in one run.
struct MicroKernelCall {
  std::string name;
  std::vector<int64_t> ints;
  double calls = 0;
};

void collect_calls(const CostNode& node, double executions, std::vector<MicroKernelCall>& calls) {
  if (node.kind == CostNode::Kind::kCall) {
    for (const MicroKernelVariant& variant : node.variants) {
      MicroKernelCall* found = nullptr;
      for (MicroKernelCall& call : calls)
        if (call.name == variant.name && call.ints == variant.ints) found = &call;
      if (!found) found = &calls.emplace_back(MicroKernelCall{variant.name, variant.ints, 0});
      found->calls += executions * variant.share;
    }
  }
  if (node.kind == CostNode::Kind::kLoop) executions *= node.extent;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const bool shared = node.kind == CostNode::Kind::kChoice || node.kind == CostNode::Kind::kCall;
    collect_calls(node.children[i], shared ? executions * node.shares[i] : executions, calls);
  }
}

std::vector<MicroKernelCall> micro_kernel_calls(const LoopTree& tree) {
  std::vector<MicroKernelCall> calls;
  collect_calls(tree.root, 1, calls);
  return calls;
}

TEST(MicroKernelCalls, BranchesAndArgumentsAreCounted) {
  const std::vector<MicroKernelCall> calls = micro_kernel_calls(tree_of(kDispatch));
  const auto count = [&](const std::string& name, int64_t n) {
    double sum = 0;
    for (const MicroKernelCall& call : calls)
      if (call.name == name && call.ints == std::vector<int64_t>{n}) sum += call.calls;
    return sum;
  };
  EXPECT_EQ(calls.size(), 4u);
  EXPECT_DOUBLE_EQ(count("tall", 768), 24 * 2);
  EXPECT_DOUBLE_EQ(count("low", 768), 24 * 13);
  EXPECT_DOUBLE_EQ(count("tall", 2), 2);
  EXPECT_DOUBLE_EQ(count("tall", 3), 54);
}

TEST(MicroKernelCalls, OfALoweredSchedule) {
  const CanonicalMicroKernel micro_kernel{.rows = 6, .vectors = 2, .depth = 48, .panels = 5, .repeats = 7};
  const auto func = canonical_micro_kernel(micro_kernel, 16);
  ASSERT_TRUE(func.has_value());
  const auto kernel = lower(*func, plain_target());
  ASSERT_TRUE(kernel.has_value());
  const std::vector<MicroKernelCall> calls = micro_kernel_calls(make_loop_tree(kernel->kernel, plain_target()));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_DOUBLE_EQ(calls[0].calls, 35);
  EXPECT_TRUE(kernel->kernel.funcs.count(calls[0].name));
  EXPECT_NE(std::find(calls[0].ints.begin(), calls[0].ints.end(), 48), calls[0].ints.end());
}

TEST(LoopTree, AStepIsCounted) {
  const CanonicalMicroKernel micro_kernel{.rows = 6, .vectors = 2, .depth = 48};
  const auto func = canonical_micro_kernel(micro_kernel, 16);
  ASSERT_TRUE(func.has_value());
  const auto kernel = lower(*func, plain_target());
  ASSERT_TRUE(kernel.has_value());
  const LoopTree tree = make_loop_tree(kernel->kernel, plain_target());
  // The step is the body with multiplications.
  const CostNode* step = nullptr;
  const std::function<void(const CostNode&)> visit = [&](const CostNode& node) {
    if (node.kind == CostNode::Kind::kBody && node.work.fma > 0) step = &node;
    for (const CostNode& child : node.children) visit(child);
  };
  visit(tree.root);
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->work.fma, 12);
  EXPECT_EQ(step->work.broadcasts, 6);
  EXPECT_EQ(step->work.vector_loads(), 2);
  EXPECT_EQ(step->work.accumulators, 12);
  EXPECT_EQ(step->work.live_registers, 12);
  EXPECT_EQ(step->work.flops, 2 * 12 * 16);
  EXPECT_EQ(step->work.stores, 0);
  ASSERT_EQ(step->streams.size(), 2u);
  for (const Stream& stream : step->streams) {
    if (stream.accesses != 6) {
      EXPECT_EQ(stream.run_bytes, 128);
      EXPECT_EQ(stream.step_bytes.back(), 128);
      continue;
    }
    EXPECT_EQ(stream.run_bytes, 4);
    EXPECT_EQ(stream.step_bytes.back(), 4);
    ASSERT_EQ(stream.dims.size(), 1u);
    EXPECT_EQ(stream.dims[0].count, 6);
    EXPECT_EQ(stream.dims[0].stride_bytes, 48 * 4);
  }
}

TEST(LoopTree, ExtentsThatDependOnLoopsAreAveraged) {
  const LoopTree tree = tree_of(R"(
entry lowered func triangle(A: f32[10000], B: f32[10000] output):
  for i in 100:
    for j in i + 1:
      B[i * 100 + j] = A[i * 100 + j]
)");
  ASSERT_EQ(tree.root.kind, CostNode::Kind::kLoop);
  EXPECT_EQ(tree.root.extent, 100);
  EXPECT_DOUBLE_EQ(tree.root.children[0].extent, 50.5);
}

TEST(LoopTree, ConditionsBeyondTheLimitAreSampled) {
  const LoopTree tree = tree_of(R"(
entry lowered func half(A: f32[100000], B: f32[100000] output):
  for i in 100000:
    if i < 25000:
      B[i] = A[i]
)");
  ASSERT_EQ(tree.root.children[0].kind, CostNode::Kind::kChoice);
  EXPECT_NEAR(tree.root.children[0].shares[0], 0.25, 0.01);
}

TEST(LoopTree, VectorsMasksAndGathers) {
  const LoopTree tree = tree_of(R"(
entry lowered func f(A: f32[100000], B: f32[100000] output):
  for i in 100:
    B[ramp(i * 32, 1, 32)] = A[ramp(i, 1000, 32)] * broadcast(2.0, 32)
)");
  const CostNode* body = first_body(tree.root);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ(body->work.stores, 2);
  EXPECT_EQ(body->work.gathers, 32);
  EXPECT_EQ(body->work.arithmetic, 2);
}

TEST(LoopTree, LanesOfTheSameLinesAreHalfOfOthers) {
  const LoopTree tree = tree_of(R"(
entry lowered func f(A: f32[100000], B: f32[100000] output):
  for i in 100:
    B[ramp(i * 16, 1, 16)] = A[ramp(i * 32, 2, 16)]
)");
  const CostNode* body = first_body(tree.root);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ(body->work.gathers, 8);
}

// What rows of a tile read under the same guard is read once, and an element for all lanes is no vector of its own.
TEST(LoopTree, RowsShareWhatAGuardLetsThrough) {
  const auto work_of = [](int rows) {
    std::string text =
        "\nentry lowered func f(A: f32[100000], W: f32[100000] constant, B: f32[100000] output):\n  for i in 100:\n";
    for (int row = 0; row < rows; ++row) {
      const std::string r = std::to_string(row);
      text += "    B[ramp(i * 64 + " + r +
              " * 16, 1, 16)] = select(ramp(i, 1, 16) < broadcast(90, 16), A[ramp(i, 1, 16) if "
              "ramp(i, 1, 16) < broadcast(90, 16)], broadcast(0.0, 16)) * W[broadcast(i + " +
              r + ", 16)]\n";
    }
    const LoopTree tree = tree_of(text);
    return first_body(tree.root)->work;
  };
  const Work one = work_of(1), two = work_of(2);
  EXPECT_EQ(two.loads, one.loads + 1);
  EXPECT_EQ(two.broadcasts, one.broadcasts + 1);
  EXPECT_EQ(two.arithmetic, one.arithmetic + 1) << "a product";
}

TEST(Traffic, WhatFitsStays) {
  const auto copy = [](int elems) {
    return tree_of("entry lowered func copy(A: f32[" + std::to_string(elems) + "], B: f32[" + std::to_string(elems) +
                   "] output):\n  for i in " + std::to_string(elems / 16) +
                   ":\n    B[ramp(i * 16, 1, 16)] = A[ramp(i * 16, 1, 16)]\n");
  };
  const MachineCosts costs;  // 48 KB, 1 MB, 32 MB
  const auto lines = [&](int elems) {
    const auto traffic = traffic_of_nests(copy(elems), costs, 1);
    EXPECT_EQ(traffic.size(), 1u);
    return traffic[0];
  };
  const Traffic small = lines(1024), middle = lines(32 * 1024), large = lines(1 << 20), huge = lines(1 << 24);
  for (size_t level = 0; level < kSources; ++level) EXPECT_EQ(small.read[level], 0);
  EXPECT_NEAR(middle.read[0], 2048, 2);
  EXPECT_NEAR(middle.written[0], 2048, 2);
  EXPECT_EQ(middle.read[1], 0);
  EXPECT_NEAR(large.read[1], 65536, 2);
  EXPECT_EQ(large.read[2], 0);
  EXPECT_NEAR(huge.read[2], 1 << 20, 2);
  EXPECT_EQ(huge.read[0], 0);
}

TEST(Traffic, WindowsOverlap) {
  // Three rows of 4 KB for each of 1000: 1002 rows, each read once.
  const LoopTree tree = tree_of(R"(
entry lowered func f(A: f32[4194304], B: f32[4194304] output):
  for i in 1000:
    for k in 3:
      for j in 64:
        B[ramp(i * 1024 + j * 16, 1, 16)] = B[ramp(i * 1024 + j * 16, 1, 16)] + A[ramp(i * 1024 + k * 1024 + j * 16, 1, 16)]
)");
  const auto traffic = traffic_of_nests(tree, MachineCosts{}, 1);
  double read = 0;
  for (const double lines : traffic[0].read) read += lines;
  EXPECT_NEAR(read, 1002 * 64, 200);
}

TEST(Traffic, AStationaryPanelIsReadOnce) {
  // B (16 KB) is read by every row of A, and stays in L1; A passes through.
  const LoopTree tree = tree_of(R"(
entry lowered func f(A: f32[4194304], B: f32[4096], C: f32[16384] output):
  for i in 1024:
    for k in 256:
      C[ramp(i * 16, 1, 16)] = C[ramp(i * 16, 1, 16)] + A[ramp(i * 4096 + k * 16, 1, 16)] * B[ramp(k * 16, 1, 16)]
)");
  const auto traffic = traffic_of_nests(tree, MachineCosts{}, 1);
  double read = 0;
  for (const double lines : traffic[0].read) read += lines;
  EXPECT_NEAR(read, 1024 * 256 + 256, 600);
}

TEST(Traffic, APanelFromFarAwayIsSuddenUnlessItIsAskedFor) {
  // A panel of 4 MB, a line a step, beside rows of 4 bytes a step.
  const auto step = [](const std::string& request) {
    return tree_of(R"(
entry lowered func f(A: f32[65536], B: f32[1048576], C: f32[16] output):
  allocate c: f32[16] @register
  c[ramp(0, 1, 16)] = broadcast(0.0, 16)
  for k in 65536:
    c[ramp(0, 1, 16)] = c[ramp(0, 1, 16)] + broadcast(A[k], 16) * B[ramp(k * 16, 1, 16)]
)" + request + "  C[ramp(0, 1, 16)] = c[ramp(0, 1, 16)]\n");
  };
  const MachineCosts costs;
  const auto of = [&](const std::string& request) { return traffic_of_nests(step(request), costs, 1).at(1); };
  const Traffic silent = of(""), far = of("    prefetch.i32(&B[k * 16 + 4096], 3i32)\n"),
                near = of("    prefetch.i32(&B[k * 16 + 128])\n");
  const Traffic rows = of("    prefetch.i32(&A[k + 4096], 3i32)\n");
  EXPECT_NEAR(silent.sudden[1], 65536, 16);
  EXPECT_EQ(silent.asked[1], 0);
  EXPECT_EQ(far.sudden[1], 0);
  EXPECT_NEAR(far.asked[1], 65536, 16);
  EXPECT_EQ(far.asked[0], 0);
  EXPECT_NEAR(near.sudden[1], 65536, 16);
  EXPECT_NEAR(rows.sudden[1], 65536, 16);
  EXPECT_LT(rows.asked[1], 8192);
}

TEST(Traffic, SlicesAPageApartShareSets) {
  // 1 KB of each of 512 rows, walked eight times: half of L2 holds them, but where rows lie 4 KB apart they share a
  // quarter of its sets.
  const auto walked = [](int pitch) {
    return traffic_of_nests(tree_of(fmt::format(R"(
entry lowered func f(A: f32[1048576], B: f32[16] output):
  for p in 8:
    for i in 512:
      for j in 16:
        B[ramp(0, 1, 16)] = B[ramp(0, 1, 16)] + A[ramp(i * {} + j * 16, 1, 16)]
)",
                                                pitch)),
                            MachineCosts{}, 1)[0];
  };
  EXPECT_EQ(walked(1088).read[1], 0);
  EXPECT_NEAR(walked(1024).read[1], 8 * 512 * (16 + 2), 16);  // two more where each run begins
}

}  // namespace
}  // namespace fettle
