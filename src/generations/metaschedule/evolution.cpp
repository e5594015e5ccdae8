#include "generations/metaschedule/evolution.h"

namespace fettle {

PopulationOptions metaschedule_evolution(uint64_t seed) {
  static constexpr WeightedMutator kMutators[] = {{&mutate_tile_size, 0.90},
                                                  {&mutate_unroll, 0.08},
                                                  {&mutate_compute_location, 0.05},
                                                  {&mutate_parallel, 0.02},
                                                  {&mutate_thread_binding, 0.02}};
  return {.seed = seed, .population = 512, .crossover = 0, .mutators = kMutators};
}

}  // namespace fettle
