#pragma once
// Elementwise functions of one tensor: arithmetic, roots, exponentials, rounding, logic, casts.

#include "graph/op.h"

namespace fettle {
extern const OpFamily unary_ops;
}
