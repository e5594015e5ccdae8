#pragma once
// Which kernels go through their constants backwards in every other call (lower/alternate.h).

#include <vector>

#include "driver/plan_model.h"

namespace fettle {

/// Of each call of the plan: the loop in whose odd iterations its kernel shall go backwards; -1: none. What the call
/// reads of constants takes more than half of the second-level cache, and is at least half of what an iteration of the
/// loop reads: else other kernels' constants pass between.
std::vector<int> alternating_calls(const PlannedModel& planned);

/// Of each request: whether a call of its workload is such a call.
std::vector<bool> alternating_requests(const PlannedModel& planned);

}  // namespace fettle
