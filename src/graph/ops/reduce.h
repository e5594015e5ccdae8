#pragma once
// Reductions over axes: sums, means, norms, extremes and their places.

#include "graph/op.h"

namespace fettle {
extern const OpFamily reduce_ops;
}
