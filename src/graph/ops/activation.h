#pragma once
// Activations: Relu and its kin, sigmoids, Gelu, Clip, PRelu.

#include "graph/op.h"

namespace fettle {
extern const OpFamily activation_ops;
}
