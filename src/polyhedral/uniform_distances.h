#pragma once
// Dependences of constant distances, as isl's scheduler is given them.

#include <optional>

#include "analysis/affine/isl_context.h"

namespace fettle {

/// Pairs of instances, the earlier first, without the bounds of the domain, where their distances tell all of them:
///   { S[t, i] -> T[t + 1, j] : i - 1 <= j <= i + 1 and 0 <= t < 499 and 0 <= i, j < 118 }
///   →  { S[t, i] -> T[t + 1, j] : i - 1 <= j <= i + 1 }
/// What keeps these keeps those. isl solves for an order in a hundredth of the time. Nothing where others are among
/// them: beside bounded ones, isl's numbers may grow without end.
std::optional<isl::union_map> without_bounds(const isl::union_map& pairs, const isl::union_set& domain);

}  // namespace fettle
