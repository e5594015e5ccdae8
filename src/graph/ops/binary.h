#pragma once
// Elementwise functions of several tensors with broadcasting: arithmetic, comparisons, logic, Where.

#include "graph/op.h"

namespace fettle {
extern const OpFamily binary_ops;
}
