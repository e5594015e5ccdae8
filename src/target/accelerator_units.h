#pragma once
// What the units of the decoupled access-execute accelerator do in how many cycles.

#include <cstdint>

namespace fettle {

/// What its units do in how many cycles. The sizes are those of VDLA (Chen et al., "TVM: An Automated End-to-End
/// Optimizing Compiler for Deep Learning", OSDI 2018, section 6.4); the paper gives no figures for the memory, so these
/// are what a 64-bit port to DDR3 has.
struct AcceleratorUnits {
  // Load and store: a strided slice of rows.
  int64_t memory_bytes_per_cycle = 8;  // of the one port that all units share
  int64_t memory_latency_cycles = 64;  // from a request to its first byte; nothing of it overlaps within one unit
  int64_t row_cycles = 1;              // for each row of a slice, besides its bytes

  // Compute: a vector of `vector_lanes` times a square of weights each cycle.
  int64_t vector_lanes = 16;
  int64_t gemm_latency_cycles = 8;    // filling and draining the pipeline, once an instruction
  int64_t alu_cycles_per_vector = 2;  // reads and writes of acc share its port
  int64_t alu_latency_cycles = 8;
  int max_compute_loops = 6;  // around the square, in one instruction

  // Issue: instructions are fetched in order, one a cycle, into the queues of the units.
  int64_t queue_depth = 512;

  int64_t macs_per_cycle() const { return vector_lanes * vector_lanes; }
};

}  // namespace fettle
