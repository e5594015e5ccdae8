#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Starts a reduction with what its epilogue would add at the end, so that the epilogue and the buffer between them go.
///   block T: init T[vi] = 0; T[vi] += f(vi, vk)      block D: D[vi] = T[vi] + b[vi]
///   →
///   block T: init D[vi] = b[vi]; D[vi] += f(vi, vk)
/// Also for * min max ordered_max(T, g), if both use one. The reduction keeps loops and name. Results are reassociated.
/// block:          the reduction, with an update T[…] = T[…] op f and op's neutral element as init
/// epilogue_block: D[…] = T[…] op g, elementwise on all of T, where g does not read T
/// Returns nothing; the epilogue is consumed. Saves a buffer and a pass over it.
/// Errors: E206 no such block · E212 no such reduction · E213 the reduction writes an output of the program
///         E214 the epilogue has another form, or another block reads T, too
///         E227 what g reads is not ready where the reduction runs
struct FuseReductionEpilogueArgs {
  BlockRef block;
  BlockRef epilogue_block;
  static constexpr auto fields = std::tuple{field("block", &FuseReductionEpilogueArgs::block),
                                            field("epilogue_block", &FuseReductionEpilogueArgs::epilogue_block)};
};
Result<> fuse_reduction_epilogue(Schedule& s, const FuseReductionEpilogueArgs& args);

}  // namespace fettle
