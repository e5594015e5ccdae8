#pragma once
// Convolution and transposed convolution over any number of spatial dims, grouped, dilated, padded.

#include "graph/op.h"

namespace fettle {
extern const OpFamily conv_ops;
}
