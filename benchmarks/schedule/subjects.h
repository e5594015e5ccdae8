#pragma once
// What `make bench-schedule` measures: one function a subject, in a file of its own. Each adds its rows to the report;
// a figure that could not be had is NaN, which misses its bound.

#include "harness/report.h"

namespace fettle::bench {

struct ScheduleBenchOptions {
  double seconds = 2;  // for each comparison
};

/// int8 and bf16 GEMM 1024³ through tensor intrinsics, by hand, on one thread: share of the peak of the instruction.
void add_tensor_gemms(Report& report, const ScheduleBenchOptions& options);

/// Replay and verify of a GEMM's trace of 25 steps, on one core: microseconds.
void add_replay(Report& report, const ScheduleBenchOptions& options);

/// Attention, depthwise convolution, softmax and layer norm of examples/schedules, on one thread: times faster than
/// ONNX Runtime and OpenVINO on the same subgraph.
void add_hand_schedules(Report& report, const ScheduleBenchOptions& options);

/// The convolution of examples/schedules: Winograd's F(4x4, 3x3) over the direct one, and its error.
void add_winograd(Report& report, const ScheduleBenchOptions& options);

/// Convolutions of ResNet-18 on the simulated accelerator, with and without virtual threads: share of its peak, in
/// simulated cycles.
void add_latency_hiding(Report& report, const ScheduleBenchOptions& options);

}  // namespace fettle::bench
