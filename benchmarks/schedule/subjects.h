#pragma once
// What `make bench-schedule` measures: one function a subject, in a file of its own. Each adds its rows to the report; a figure
// that could not be had is NaN, which misses its bound.

#include "harness/report.h"

namespace fettle::bench {

struct ScheduleBenchOptions {
  double seconds = 2;  // for each comparison
};

/// int8 and bf16 GEMM 1024³ through tensor intrinsics, by hand, on one thread: share of the peak of the instruction.
void add_tensor_gemms(Report& report, const ScheduleBenchOptions& options);

}  // namespace fettle::bench
