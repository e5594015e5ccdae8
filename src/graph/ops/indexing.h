#pragma once
// Operators that move elements: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Gather, …

#include "graph/op.h"

namespace fettle {
extern const OpFamily indexing_ops;
}
