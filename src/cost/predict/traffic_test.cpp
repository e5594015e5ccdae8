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
