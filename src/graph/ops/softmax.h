#pragma once
// Softmax and its logarithm.

#include "graph/op.h"

namespace fettle {
extern const OpFamily softmax_ops;
}
