#pragma once
// Shares work among threads where it is worth it: a fork and a join cost some hundred nanoseconds.

#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/structure.h"

namespace fettle {

/// About how long one thread takes for all points of a block, worked out in vectors whose operands are in a near cache,
/// ns. `calls`: calls_of, each of which takes its time for each vector.
double alone_ns(const Target& target, const BlockStructure& block, int64_t calls = 0);

/// Calls of functions that take more than an instruction or two.
int64_t calls_of(const BlockNode& block);

/// Whether what takes one thread `ns` is dealt out to all: a choice ("parallel") where that is not clear.
Result<bool> worth_threads(Schedule& s, Decider& decider, int threads, double ns);

struct ParallelOptions {
  int threads = 1;
  /// As many pieces as threads, since each further one has to be asked for; what is long is better dealt out bit by
  /// bit.
  bool a_piece_each = false;
  /// What all takes one thread for typical sizes, ns. An open number of short iterations is dealt out in pieces that
  /// are worth it: where it makes one piece, no thread is asked.
  double alone_ns = 0;
};
/// Makes parallel what is worth it among `loops`, the outermost loops of one nest, adjacent, outermost first: one of
/// them, or the first few fused, and those around it that run an open number of times. Does nothing for one thread, or
/// where no loop has independent iterations.
Result<> parallelize(Schedule& s, const std::vector<LoopRef>& loops, const ParallelOptions& options);

/// Fuses the first of these loops, adjacent, outermost first, up to the `n`-th that iterates, and makes them parallel.
Result<> parallel_together(Schedule& s, const std::vector<LoopRef>& loops, int n);

}  // namespace fettle
