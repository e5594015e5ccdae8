#pragma once
// MetaSchedule's post-processors. They finish each sampled program, and decide whether it may be measured.

#include <functional>
#include <string>
#include <vector>

#include "generations/metaschedule/schedule_rule.h"

namespace fettle {

struct Postprocessor {
  std::string name;
  /// An error: the program is left out.
  std::function<Result<>(const TuneContext&, Schedule&)> apply;
};

// --- in metaschedule/postprocessors/ --------------------------------------------------------------------------------

/// Copies in pipelined loops move whole rows: units that copy on their own take no strides. E230
Postprocessor disallow_async_strided_mem_copy();
/// Every loop has a constant extent. E221
Postprocessor disallow_dynamic_loop();
/// Sums of tiles that fit the vector registers are held there: what LLVM's scalar promotion does behind TVM's
/// schedules.
Postprocessor rewrite_accumulators();
/// Copies annotated by multi_level_tiling are made by the threads of the block together.
Postprocessor rewrite_cooperative_fetch();
/// Constants are stored in the order in which the tiles read them.
Postprocessor rewrite_layout();
/// Does what parallelize_vectorize_unroll asked for by annotations: the outermost loops are fused and parallel, the
/// innermost in lanes.
Postprocessor rewrite_parallel_vectorize_unroll();
/// Reductions are cleared by nests of their own.
Postprocessor rewrite_reduction_block();
/// Tiles annotated by multi_level_tiling_with_intrin become that intrinsic.
Postprocessor rewrite_tensorize();
/// Nests without threads get blocks of so many.
Postprocessor rewrite_unbound_block(int64_t threads_per_block = 256);
/// Unrolling makes no more statements than a compiler takes well (verify_unrolled_size). E230
Postprocessor verify_code_size();
/// The rules of a target with threads, and its limits. E230, and what verify says; E301 where it has no threads
Postprocessor verify_gpu_code();
/// What lives at once in each scope fits it; `scope` with another capacity than the target's, where one is given. E230
Postprocessor verify_scratchpad_limit(std::string scope = "", int64_t capacity_bytes = 0);

}  // namespace fettle
