#include "cost/predict/traffic.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

/// for 65536: a call of a micro-kernel that reads the next line of a buffer larger than L2, and, `looping`, goes on in
/// a loop.
LoopTree calls(bool looping) {
  using Kind = CostNode::Kind;
  CostNode first;
  first.kind = Kind::kBody;
  first.work.loads = 1;
  first.streams = {{.buffer = 0, .accesses = 1, .low_bytes = 0, .run_bytes = 64, .step_bytes = {64}}};
  CostNode micro_kernel;
  micro_kernel.kind = Kind::kSeq;
  micro_kernel.children = {first};
  if (looping) {
    CostNode step, loop;
    step.kind = Kind::kBody;
    step.work.fma = step.work.accumulators = 8;
    loop.kind = Kind::kLoop;
    loop.extent = 16;
    loop.children = {step};
    micro_kernel.children.push_back(loop);
  }
  CostNode call, outer;
  call.kind = Kind::kCall;
  call.variants = {{.name = "micro_kernel", .share = 1}};
  call.shares = {1};
  call.children = {micro_kernel};
  outer.kind = Kind::kLoop;
  outer.extent = 1 << 16;
  outer.children = {call};
  return {.root = outer, .buffers = {{.name = "A", .bytes = 64.0 * (1 << 16)}}};
}

/// for 64: 256 bytes of weights from each KiB, and as many from `apart` bytes behind them.
LoopTree taps(double apart) {
  using Kind = CostNode::Kind;
  CostNode pieces, loop;
  pieces.kind = Kind::kSeq;
  for (const double low : {0.0, apart}) {
    CostNode body;
    body.kind = Kind::kBody;
    body.streams = {{.buffer = 0, .accesses = 4, .low_bytes = low, .run_bytes = 256, .step_bytes = {1024}}};
    pieces.children.push_back(body);
  }
  loop.kind = Kind::kLoop;
  loop.extent = 64;
  loop.children = {pieces};
  return {.root = loop, .buffers = {{.name = "weights", .bytes = 65536}}};
}

TEST(Traffic, TapsBetweenEachOtherAreNotOnePlace) {
  const double one = footprint_bytes(taps(0), taps(0).root);
  EXPECT_EQ(one, 64 * 256);
  EXPECT_EQ(footprint_bytes(taps(512), taps(512).root), 2 * one);
  // Shifted by whole periods, or by less than a run, they are the same but for their ends.
  EXPECT_EQ(footprint_bytes(taps(1024), taps(1024).root), one);
  EXPECT_EQ(footprint_bytes(taps(64), taps(64).root), one);
}

/// for 14: for 12: 29 vectors of 32 bytes of a row, and the neighbours of each element: A[i, j, k] of 8 bytes, in
/// planes of 120 rows. `apart`: the neighbours are streams of their own.
LoopTree stencil(bool apart) {
  constexpr double kRow = 960, kPlane = 115200;
  CostNode body, rows, planes;
  body.kind = CostNode::Kind::kBody;
  const auto stream = [&](double low, std::vector<StreamDim> copies) {
    copies.insert(copies.begin(), {32, 29});
    body.streams.push_back(
        {.low_bytes = low, .run_bytes = 32, .dims = std::move(copies), .step_bytes = {kPlane, kRow}});
  };
  if (apart) {
    for (const double neighbour : {0.0, -8.0, 8.0, -kRow, kRow, -kPlane, kPlane}) stream(neighbour, {});
  } else {
    // From A[i - 1, j, k] by way of A[i, j - 1, k] to A[i, j, k - 1], and on.
    stream(-kPlane, {{kPlane - kRow, 3}, {kRow - 8, 3}});
  }
  rows.kind = planes.kind = CostNode::Kind::kLoop;
  rows.extent = 12;
  planes.extent = 14;
  rows.children = {body};
  planes.children = {rows};
  return {.root = planes, .buffers = {{.name = "A", .bytes = 120 * kPlane}}};
}

TEST(Traffic, NeighboursOfAStencilAreMostlyTheSameLines) {
  const double rows = 16 * 14, row_bytes = 15 * 64;
  for (const bool apart : {true, false}) {
    const LoopTree tree = stencil(apart);
    const double bytes = footprint_bytes(tree, tree.root);
    EXPECT_GT(bytes, 0.8 * rows * row_bytes);
    EXPECT_LT(bytes, 1.3 * rows * row_bytes);
  }
}

TEST(Traffic, WhatAMicroKernelReadsBeforeItsLoopIsItsEdge) {
  const MachineCosts costs;
  const Traffic looping = traffic_of_nests(calls(true), costs, 1).front();
  EXPECT_GT(looping.edge[1], 1000);
  EXPECT_EQ(looping.read[1], 0);
}

TEST(Traffic, AMicroKernelWithoutLoopsHasNoEdges) {
  const MachineCosts costs;
  const Traffic straight = traffic_of_nests(calls(false), costs, 1).front();
  EXPECT_EQ(straight.edge[1], 0);
  EXPECT_GT(straight.read[1], 1000);
}

}  // namespace
}  // namespace fettle
