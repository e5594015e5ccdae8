#pragma once
// Batch, layer, group, instance and root-mean-square normalisation.

#include "graph/op.h"

namespace fettle {
extern const OpFamily normalization_ops;
}
