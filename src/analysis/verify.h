#pragma once
// The rules that every program must keep before it is lowered, whatever led to it.

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

struct VerifyOptions {
  /// Iterations of parallel and vectorized loops must be provably independent.
  bool races = true;
  /// All other checks. Off: this very program has passed them before.
  bool others = true;
};

/// Checks, each provably (what cannot be shown counts as broken):
///  - a block's bindings stay in its iterators' domains wherever it runs; the only writer of an output reaches all of
///    it
///  - every load and store is inside its buffer, guards in the block considered
///  - scopes are known to the target; what lives in a scope at once fits its capacity (that of one block or thread,
///    where each has its own)
///  - loops over threads have constant extents; axes, and threads in a block, are not more than the target has
///  - a `register` buffer is moved through only by unrolled and vectorized loops of constant extent; all that are
///    alive at once fit the vector registers
///  - vectorized and unrolled loops have constant extents; parallel, vectorized and bound ones no races
///  - pad lanes of padded layouts are written, and with zeros
/// What a block's body says about itself is remembered by its node (per thread), so that verifying the next candidate,
/// which shares its blocks, costs only the loops.
/// Errors: E219 unknown scope · E221 extent not constant · E210 race · E230 the others, naming block and buffer
Result<> verify(const Func& func, const Target& target, const VerifyOptions& options = {});

}  // namespace fettle
