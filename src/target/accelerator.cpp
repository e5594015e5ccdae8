#include "target/accelerator.h"

namespace fettle {

Target accelerator_target() {
  const AcceleratorUnits units;
  Target target;
  target.accelerator = units;
  target.kind = "dae";
  target.arch = "dae";
  target.cpu = "vdla";
  target.vector_bits = static_cast<int>(units.vector_lanes) * 8;
  target.vector_registers = 0;
  target.fma_per_cycle = static_cast<int>(units.vector_lanes);
  target.fma_latency_cycles = static_cast<int>(units.gemm_latency_cycles);
  target.frequency_ghz = 0.2;
  const auto lanes = static_cast<int>(units.vector_lanes);
  const auto scratchpad = [](const char* name, int64_t kib, int alignment) {
    return MemoryScope{.name = name,
                       .parent = "global",
                       .capacity_bytes = kib << 10,
                       .alignment_bytes = alignment,
                       .shared_by = "vthread"};
  };
  // An access of the compute unit: a vector, a square of weights, a vector of 32-bit sums.
  target.scopes = {{.name = "global", .parent = "", .capacity_bytes = 0, .alignment_bytes = 64, .shared_by = ""},
                   scratchpad("inp", 32, lanes),
                   scratchpad("wgt", 32, lanes * lanes),
                   scratchpad("acc", 128, lanes * 4)};
  return target;
}

}  // namespace fettle
