#pragma once
// MetaSchedule's evolution: Ansor's search with mutation alone.

#include <cstdint>

#include "generations/ansor/search/population_search.h"

namespace fettle {

/// MetaSchedule's numbers: 512 programs, mutation alone.
PopulationOptions metaschedule_evolution(uint64_t seed);

}  // namespace fettle
