#pragma once
// Which way strides lead.

#include "graph/dim.h"

namespace fettle {

/// Whether it leads from the end of memory to its beginning, as a reversed value's does.
inline bool runs_backwards(const Dim& stride) { return stride.max() <= 0 && !(stride == Dim(0)); }

}  // namespace fettle
