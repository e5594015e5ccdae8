#pragma once
// Kernels that read what they stream forwards in one call and backwards in the next.

#include "ir/func.h"

namespace fettle {

/// A kernel that is called over and over with the same constants, more of them than a cache holds, finds none there: a
/// call evicts what the next one begins with. If every other call goes backwards, it begins with what came last.
///
/// Annotates `alternates` on the outermost serial loop of each nest whose iterations may run in any order. Lowering
/// then gives the kernel a further integer parameter, the last: `turn`, 0 or 1, which says in what order they run.
/// Nothing to annotate: `scheduled` itself.
Func with_alternating_loops(const Func& scheduled);

}  // namespace fettle
