#pragma once
// Rewrites programs so that they have no more dimensions than the work needs.

#include "graph/size_vars.h"
#include "ir/func.h"

namespace fettle {

/// Dimensions and loops of extent 1 go.
///   conv[1, 24, 160, 32] += x[1, 24, 160, 16] * w[32, 16, 1, 1]   →   conv[24, 160, 32] += x[24, 160, 16] * w[32, 16]
Func drop_unit_dims(const Func& func);

/// Adjacent dimensions that every access walks together become one, in buffers and loops alike: a 1x1 convolution
/// becomes a matrix product, an elementwise program one loop.
///   conv[24, 160, 32] += x[24, 160, 16] * w[32, 16]   →   conv[3840, 32] += x[3840, 16] * w[32, 16]
/// Parameters keep their bytes in the same order.
Func merge_dims(const Func& func, const SizeVars& vars = SizeVars());

}  // namespace fettle
