#pragma once
// Pooling: maximum and average, over windows and over all of the spatial dims.

#include "graph/op.h"

namespace fettle {
extern const OpFamily pool_ops;
}
