#pragma once
// Programs under the schedules that are constructed for them, without search and without a hand.

#include <vector>

#include "cuda/subject.h"

namespace fettle::bench {

/// The default of `subject`'s program, on its own: "default NAME".
Subject by_default(Subject subject);

/// What only moves memory, of arrays of 256 MiB: elementwise, transposed, gathered, reduced.
std::vector<Subject> default_moves();

}  // namespace fettle::bench
