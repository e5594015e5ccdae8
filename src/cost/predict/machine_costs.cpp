#include "cost/predict/machine_costs.h"

#include <algorithm>
#include <cmath>

namespace fettle {
namespace {

// Of the last cache, which is indexed by physical addresses: pages of one buffer fall into some of its sets more often
// than into others, and other cores use it, too. Reads of a buffer of half its size begin to slow down.
constexpr double kSharedCacheHolds = 0.7;

}  // namespace

MachineCosts describe_costs(const Target& target) {
  MachineCosts costs;
  costs.streams = std::max(1, target.streams);
  costs.hz = std::max(0.1, target.frequency_ghz) * 1e9;
  costs.fma_per_cycle = std::max(1, target.fma_per_cycle);
  costs.fma_latency = std::max(1, target.fma_latency_cycles);
  costs.registers = target.vector_registers;
  costs.vector_bytes = std::max(1, target.vector_lanes(1));
  for (size_t i = 0; i < costs.capacity_bytes.size() && i < target.caches.size(); ++i)
    costs.capacity_bytes[i] = static_cast<double>(target.caches[i].size_bytes);
  // A missing level is as large as the one before it.
  for (size_t i = std::max<size_t>(1, target.caches.size()); i < costs.capacity_bytes.size(); ++i)
    costs.capacity_bytes[i] = costs.capacity_bytes[i - 1];
  if (target.caches.size() >= costs.capacity_bytes.size()) costs.capacity_bytes.back() *= kSharedCacheHolds;
  if (!target.caches.empty() && target.caches[0].ways > 0) {
    costs.l1_ways = target.caches[0].ways;
    costs.l1_way_bytes = static_cast<double>(target.caches[0].size_bytes) / target.caches[0].ways;
  }
  return costs;
}

double rough_ns(const VectorCounts& counts, const MachineCosts& costs) {
  const double cycles = counts.multiply_adds * costs.near_fma_cycles + counts.moves * costs.near_move_cycles +
                        counts.function_calls * costs.function_cycles;
  return cycles / costs.hz * 1e9;
}

double work_cycles(const Work& work, const MachineCosts& costs, bool in_loop, double exposed) {
  double loads = work.loads + 2 * work.gathers, stores = work.stores;
  // What does not fit into registers is stored and loaded again.
  const double updates = work.fma > 0 ? work.fma : work.arithmetic;  // of accumulators
  const double steps = work.accumulators > 0 ? std::max(1.0, std::floor(updates / work.accumulators)) : 1;
  const double needed = work.live_registers > 0 ? work.live_registers + work.vector_loads() / steps + 1 : 0;
  // A piece that only brings out what others have made spills no more than it touches.
  const double beyond = std::max(0.0, needed - costs.registers);
  const double spilled = work.accumulators > 0 ? beyond : std::min(beyond, work.touched_registers);
  loads += spilled;
  stores += spilled;
  const double arithmetic = work.arithmetic + work.fma;
  // Other arithmetic on vectors runs where multiply-adds run.
  double cycles =
      std::max({arithmetic / costs.fma_per_cycle, loads / costs.loads_per_cycle, stores / costs.stores_per_cycle,
                (arithmetic + loads + stores + 2) / costs.issue_per_cycle});
  cycles = std::max(cycles, costs.tile_product_cycles * work.tile_products);
  cycles += 6 * work.divisions + 1.2 * spilled + costs.request_cycles * work.far_requests;
  if (in_loop && work.accumulators > 0) {
    // Each accumulator waits for itself.
    cycles = std::max(cycles, exposed * costs.fma_latency * std::max(1.0, updates / work.accumulators));
  }
  if (in_loop && work.carried_through_memory) cycles = std::max(cycles, costs.fma_latency + 8);
  return std::max(cycles, 1.0);
}

}  // namespace fettle
