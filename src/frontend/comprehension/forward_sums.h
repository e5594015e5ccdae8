#pragma once
// Sums of loops that are made apart and then added to one place.

#include <optional>
#include <string>
#include <vector>

#include "frontend/comprehension/syntax.h"

namespace fettle::comprehension {

/// The same by steps that go to the place itself, which are an update like any other:
///   t +=! a(k) where …            x(i) = p + q
///   x(i) = (p + q * t) / r   →    x(i) += q * a(k) where …
///                                 x(i) = x(i) / r
/// The first statement is left out where p is x(i), the last one where nothing divides. Nothing where `use` does not
/// read `sum` once, in a sum or a difference. That t is read nowhere else, and that the terms do not read x(i), is for
/// the caller to know.
std::optional<std::vector<StatementTree>> forwarded(const StatementTree& sum, const StatementTree& use);

/// Whether each statement below that reads the scalar follows one that begins it as a sum.
bool is_read_after_sums(const StatementTree& tree, const std::string& scalar);

}  // namespace fettle::comprehension
