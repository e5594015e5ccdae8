#pragma once
// What pieces of work cost on a machine, in cycles: known from its description, corrected by what was measured.

#include <array>

#include "cost/loop_tree/loop_tree.h"
#include "target/target.h"

namespace fettle {

/// Where a cache line comes from, beyond the first-level cache.
enum class LineSource : uint8_t { kL2, kL3, kMemory };
inline constexpr int kSources = 3;

struct MachineCosts {
  double hz = 3e9;  // cycles a second
  double fma_per_cycle = 2;
  double fma_latency = 4;
  double loads_per_cycle = 2;
  double stores_per_cycle = 1;
  double issue_per_cycle = 6;
  double registers = 32, vector_bytes = 64;
  double in_flight = 256;  // instructions that wait for others while later ones run
  /// One line read, where nothing but bandwidth limits.
  std::array<double, kSources> line_cycles{1.4, 2.7, 4.5};
  /// One line's delay that is not hidden behind arithmetic even where there is bandwidth to spare.
  std::array<double, kSources> latency_cycles{0.02, 0.06, 0.5};
  /// One line that a micro-kernel reads before its first or after its last step, such as a tile that it adds to.
  std::array<double, kSources> edge_line_cycles{1, 12, 30};
  /// A line written, in lines read.
  std::array<double, kSources> write_weight{1, 1.3, 2};
  /// A prefetch into the second-level cache takes a load's place and looks into two caches. (One into the first level
  /// saves about what it costs.)
  double request_cycles = 0.4;
  double tile_product_cycles = 16;  // of a unit that multiplies matrices
  double call_cycles = 10;          // of a micro-kernel, beside its work: arguments, jumps, the first loads
  double loop_cycles = 5;           // one innermost loop: entered, drained, left
  double edge_share = 0.4;          // of what is before and after a micro-kernel's loops, and of calls, that shows
  double outer_loop_cycles = 2;     // one iteration of a loop that is not innermost
  double code_bytes = 32768;        // that are at hand; loops of larger micro-kernels wait for their code
  double code_byte_cycles = 0.17;   // for one byte of code that was not at hand
  double fork_join_seconds = 1.5e-6;
  /// Of a line that one kernel of a model writes and the next one reads, where the second-level cache is too small.
  double hand_over_line_cycles = 16;
  /// Of one vector of a nest that is not lowered yet, whose operands are in a near cache: multiplied and added, moved
  /// or added up, given to a function (exp, tanh, …).
  double near_fma_cycles = 0.9, near_move_cycles = 1.5, function_cycles = 12;
  std::array<double, kSources> capacity_bytes{48e3, 1e6, 32e6};  // of L1, L2, L3
  double streams = 1;                                            // Target::streams, which share what memory delivers
  double l1_ways = 8, l1_way_bytes = 4096;
};

/// By the target's description alone.
MachineCosts describe_costs(const Target& target);

/// Vectors that a nest works on, for a first guess before it is lowered.
struct VectorCounts {
  double multiply_adds = 0, moves = 0, function_calls = 0;
};

/// What one thread takes for them, ns.
double rough_ns(const VectorCounts& counts, const MachineCosts& costs);

/// Cycles of one run of straight-line code whose data lie in the first-level cache. in_loop: run after run, so that
/// latencies of accumulators count; `exposed` is the share of them that nothing else hides.
double work_cycles(const Work& work, const MachineCosts& costs, bool in_loop, double exposed = 1);

}  // namespace fettle
