#pragma once
// The schedule of a workload that nobody has tuned.

#include <limits>
#include <memory>

#include "base/result.h"
#include "schedule/schedule.h"

namespace fettle {

/// The constructed default with an error bound of at most this (schedule/reformulation.h), or, where the rules have
/// none, the program as it is.
Result<Schedule> untuned_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  double max_error_bound = std::numeric_limits<double>::infinity());

}  // namespace fettle
