#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Overlaps iterations of a loop: while one computes, what a later one needs is fetched.
///   for k: [copy A; copy B; multiply]   with stages [0, 0, 1], order [0, 1, 2]
///   →   for k {software_pipeline_order = [0, 1, 2], software_pipeline_stage = [0, 0, 1]}: the same
///   run as:  copy A(0); copy B(0); for k in 1 …: copy A(k); copy B(k); multiply(k - 1);   multiply(last)
/// stages: for each part of the loop's body, in order, how many iterations later it runs
/// order:  for each part its place among those that run in the same turn
/// Checked is that this keeps the meaning, given as many versions of a buffer as the stages of writer and reader lie
/// apart: iterations meet only within themselves, and a part that needs another one runs later. Run in order it means
/// the same, and so the interpreter does. Lowering makes versions, prologue, steady state and epilogue
/// (lower/passes/pipeline_loops.cpp); it runs the loop in order where a buffer of scope `register` would need versions.
/// Returns nothing. Costs the versions of the buffers.
/// Errors: E201 annotated or not serial · E206 no such loop · E241 not one stage in 0 to 15 and one place for each part
///         E227 a part needs what another iteration makes, or would run before what it needs
struct SoftwarePipelineArgs {
  LoopRef loop;
  std::vector<int64_t> stages;
  std::vector<int64_t> order;
  static constexpr auto fields =
      std::tuple{field("loop", &SoftwarePipelineArgs::loop), field("stages", &SoftwarePipelineArgs::stages),
                 field("order", &SoftwarePipelineArgs::order)};
};
Result<> software_pipeline(Schedule& s, const SoftwarePipelineArgs& args);

inline constexpr int64_t kMaxPipelineStage = 15;

}  // namespace fettle
