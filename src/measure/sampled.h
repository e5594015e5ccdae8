#pragma once
// A program that computes only some of its results: what a reference for large programs is made of.

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// Block instances that one call runs; loops of unknown extent count as 1.
double count_instances(const Func& workload);

/// `workload` with the spatial loops of its heavy nests cut down to some of their iterations, so that about
/// `max_instances` block instances are left. The loops keep the first, the last and some between them, at distances
/// that no tile divides:
///   for i in 2048: for j in 2048: for k in 2048: C[i, j] += …
///     →  C[…] = unknown;  for i in 40: for j in 40: for k in 2048: C[at(i), at(j)] += …
/// What is not computed is `unknown`. Results that come out equal for two values of it do not depend on what was left
/// out. E301 where no loop can be cut down so far.
Result<Func> sampled_program(const Func& workload, double max_instances, double unknown);

}  // namespace fettle
