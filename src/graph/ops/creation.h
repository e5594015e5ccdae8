#pragma once
// Operators that make tensors from parameters: ConstantOfShape, Range, EyeLike, OneHot.

#include "graph/op.h"

namespace fettle {
extern const OpFamily creation_ops;
}
