#pragma once
// The steps that only decoupled machines need (Pipeline::kDecoupled).

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// Wraps every largest nest around one store that belongs to one unit: loops with the store inside.
///   for i in 4: for j in 16: A_inp[i*16 + j] = A[i*64 + j]   →   issue "load": the same
/// E301 where a store belongs to none.
Result<Stmt> issue_tasks(const Stmt& body);

/// Loops of virtual threads go inwards to the tasks, so that those of different threads alternate. A buffer allocated
/// inside gets a place for each thread (Chen et al., "TVM", OSDI 2018, section 4.4 and figure 8).
///   for t in 2 thread axis("vthread"):
///     alloc P[64]; for k in 4: issue "load": P[i] = …; issue "compute": … P[i] …
///   →
///   alloc P[128]; for k in 4: issue "load": P[i] = …;    issue "load": P[64 + i] = …
///                             issue "compute": … P[i] …; issue "compute": … P[64 + i] …
/// Tasks of one unit that follow one another in a thread stay together, because what is in one queue waits for what is
/// before it. A loop or condition that depends on the thread is repeated whole for each. E301 for a number of threads
/// that is not constant.
Result<Stmt> interleave_virtual_threads(const Stmt& body, const Target& target);

}  // namespace fettle
