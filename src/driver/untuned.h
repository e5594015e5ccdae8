#pragma once
// The schedule of a workload that nobody has tuned.

#include <memory>

#include "base/result.h"
#include "schedule/schedule.h"

namespace fettle {

/// The constructed default, or, where the rules have none, the program as it is.
Result<Schedule> untuned_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads);

}  // namespace fettle
