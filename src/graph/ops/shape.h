#pragma once
// Operators that rename elements or tell shapes: Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size, Identity.

#include "graph/op.h"

namespace fettle {
extern const OpFamily shape_ops;
}
