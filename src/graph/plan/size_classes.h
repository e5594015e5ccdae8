#pragma once
// Kernels for classes of sizes: where a model says for which values of a size kernels are to be made, a program has one
// for each, chosen by one of its integer parameters when it is called.

#include "graph/plan/plan.h"

namespace fettle {

/// Gives each workload that reduces something its classes (PlannedWorkload::classes), from the graph's (SizeClasses).
/// Of an integer parameter, the values that the graph's points give it, in any of the workload's calls, are the points;
/// the border between two is their geometric mean. The parameter with the most points decides. E709 too many.
Result<> add_size_classes(Plan& plan, const Graph& graph);

}  // namespace fettle
