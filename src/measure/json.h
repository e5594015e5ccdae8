#pragma once
// Structs that tuners, workers and devices tell each other, as JSON objects of their fields. Includes the JSON library.

#include <nlohmann/json.hpp>

#include "measure/timing.h"
#include "target/target.h"

/// What may be missing is null.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) { j = value ? json(*value) : json(); }
  static void from_json(const json& j, std::optional<T>& value) {
    if (j.is_null())
      value.reset();
    else
      value = j.get<T>();
  }
};

namespace fettle {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadAxis, name, max_extent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuUnits, multiprocessors, warp_threads, threads_per_multiprocessor,
                                   registers_per_multiprocessor, shared_bytes_per_multiprocessor, l2_bytes,
                                   memory_gb_per_s, tensor_core_tflops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CacheLevel, size_bytes, ways, line_bytes, shared_by_threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryScope, name, parent, capacity_bytes, alignment_bytes, shared_by)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, kind, arch, cpu, features, vector_bits, vector_registers, fma_per_cycle,
                                   fma_latency_cycles, frequency_ghz, threads, streams, caches, scopes, thread_axes,
                                   max_threads_per_block, gpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimingOptions, incumbent_s, reference_s, target_half_width, batch_s, min_samples,
                                   max_samples, max_seconds, flush_bytes)

}  // namespace fettle
