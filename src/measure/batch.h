#pragma once
// One call of Runner::measure, by workers.

#include <span>
#include <string>
#include <vector>

#include "measure/runner.h"

namespace fettle {

struct MeasurerState;

/// Builds each distinct trace once, on all workers; then runs one after another, while nothing else runs here. What a
/// lost worker had not finished is done again, once.
Result<std::vector<MeasureResult>> measure_batch(MeasurerState& state, std::span<const std::string> traces,
                                                 const MeasureRequest& request);

}  // namespace fettle
