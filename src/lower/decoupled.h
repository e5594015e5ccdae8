#pragma once
// Scheduled program → tasks for the units of a decoupled access-execute machine.

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// The queues of such a machine, by which tasks are known: AsyncNodes of kind kIssue.
inline constexpr const char* kQueueLoad = "load";        // memory → a scratchpad of operands
inline constexpr const char* kQueueCompute = "compute";  // what reads or writes sums
inline constexpr const char* kQueueStore = "store";      // sums → memory

/// A program of flat accesses whose loops hand tasks to the units; virtual threads are interleaved, annotations of
/// loops are dropped but for `tensorize`. What was annotated `double_buffer` has two places. Tasks run in order mean
/// what the scheduled program means, and so the interpreter does.
///   for t in 2 thread axis("vthread"): for k in 4: I_inp = I[…]; W_wgt = W[…]; S += I_inp * W_wgt
///   →   for k in 4: issue "load": I_inp[0] = …; issue "load": I_inp[1] = …; …; issue "compute": S[0] += …; issue
///   "compute": S[1] += …
/// Errors: E301 a loop bound to threads, an integer parameter, or a statement that belongs to no unit
Result<Func> lower_decoupled(const Func& scheduled, const Target& target);

}  // namespace fettle
