#pragma once
// What a kernel does and how long each part of it should take: the raw material of predictions and of features.

#include <array>

#include "cost/loop_tree/loop_tree.h"
#include "cost/predict/micro_kernel_table.h"
#include "cost/predict/traffic.h"

namespace fettle {

/// Seconds and counts of one run, on the thread that has most to do.
struct Estimate {
  double step_s = 0;                       // micro-kernels: their reduction loops
  double edge_s = 0;                       // micro-kernels: what is before and after these, and calls
  double plain_s = 0;                      // everything else, its data in the first-level cache
  std::array<double, kSources> stall_s{};  // waiting for lines from there
  double fork_s = 0;
  double seconds() const;

  double flops = 0, fma = 0, arithmetic = 0, loads = 0, broadcasts = 0, stores = 0, gathers = 0, divisions = 0;
  double calls = 0, steps = 0, loops = 0, iterations = 0;
  double plain_flops = 0;  // outside of micro-kernels
  double scalar_runs = 0;  // of straight-line pieces outside of micro-kernels
  double steps_conflict = 0, steps_packed = 0, steps_in_place = 0;
  double step_rows = 0, step_vectors = 0;  // summed over steps
  double latency_bound = 0;                // steps whose accumulators are too few
  double spilled = 0;                      // registers, summed over steps
  double near_requests = 0, far_requests = 0;
  std::array<double, kSources> read_lines{}, written_lines{}, edge_lines{};
  double code_bytes = 0, footprint_bytes = 0, parameter_bytes = 0, scratch_bytes = 0;
  double parallel_extent = 0, parallel_loops = 0, parallel_waste = 1;  // threads' time over useful time
  double nests = 0, micro_kernels = 0, variants = 0, depth = 0;
};

/// Work and movement of data go on at the same time, but never quite: the longer one counts, and the less of the other
/// the sharper it is (1: all of it).
double together(double work, double movement, double sharpness);

Estimate estimate(const LoopTree& tree, const MachineCosts& costs, int threads, const MicroKernelTable* micro_kernels);

}  // namespace fettle
