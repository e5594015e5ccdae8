#pragma once
// Structs that tuners, workers and devices tell each other, as JSON objects of their fields. Includes the JSON library.

#include <nlohmann/json.hpp>

#include "measure/timing.h"
#include "target/target.h"

namespace fettle {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CacheLevel, size_bytes, ways, line_bytes, shared_by_threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryScope, name, parent, capacity_bytes, alignment_bytes, shared_by)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, kind, cpu, features, vector_bits, vector_registers, fma_per_cycle,
                                   fma_latency_cycles, frequency_ghz, threads, caches, scopes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimingOptions, incumbent_s, reference_s, target_half_width, batch_s, min_samples,
                                   max_samples, max_seconds, flush_bytes)

}  // namespace fettle
