#pragma once
// Sums of products of two tensors, apart from what scales them or is added to them.

#include <optional>
#include <string>

#include "frontend/comprehension/statement.h"

namespace fettle::comprehension {

/// A statement as a sum of products of two tensors, and one that goes on with it.
struct FactoredSum {
  StatementTree sum, rest;
};

/// A factor that no index moves is taken out of the sum, and what the sum is added to is added once:
///   C(i, j) += alpha * A(i, k) * B(k, j)   →   name(i, j) +=! A(i, k) * B(k, j)
///                                              C(i, j) += alpha * name(i, j)
/// Singles and doubles only, all of one type, and without clauses. `name`: a new tensor's. Nothing where the statement
/// is no such sum, or has nothing to be taken out.
std::optional<FactoredSum> factored(const StatementTree& tree, const Scope& scope, const std::string& name);

}  // namespace fettle::comprehension
