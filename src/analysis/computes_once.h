#pragma once
// Programs that compute elements twice.

#include "ir/func.h"

namespace fettle {

/// Whether each instance of each block runs once. Not so where a tile overlaps the one before it (Tail::kShift), which
/// shows in bindings that are held back by a minimum; such a program must not write over what it reads.
///   for i0 in 4: for i1 in 8: block (v = min(i0 * 8, 22) + i1)
bool computes_once(const Func& scheduled);

}  // namespace fettle
