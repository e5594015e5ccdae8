#pragma once
// The keys of annotations on functions, loops and blocks, for whoever writes them and whoever reads them. Searches have
// further ones, which mean nothing to anybody else.

namespace fettle {

// --- on functions
inline constexpr const char* kMicroKernelKey = "micro_kernel";  // 1: a micro-kernel, in final form
inline constexpr const char* kContractKey = "contract";         // 0 or 1: whether a*b + c may be one rounding
inline constexpr const char* kHostKey = "host";                 // 1: calls are of kernels, through the run-time system
inline constexpr const char* kLateKey = "late";  // of a host program: buffers whose addresses stand where it is told
inline constexpr const char* kInOrderKey = "in_order";  // 1: it has scans; in lowering, and of what is lowered
inline constexpr const char* kNumericsKey = "numerics";       // how its results may differ from those of the workload
inline constexpr const char* kErrorBoundKey = "error_bound";  // how far, in units of epsilon

/// The function of the run-time system that a host program calls with integers: what depends on them is known then.
inline constexpr const char* kReachStage = "fettle_reach_stage";
/// The one that it calls where a loop or a branch begins, goes on or ends (FettleStepEvent), for whoever traces calls.
inline constexpr const char* kMarkStep = "fettle_mark_step";

// --- on loops, by the schedule
inline constexpr const char* kPrefetchKey = "prefetch";           // iterations ahead, into the second-level cache
inline constexpr const char* kPrefetchNearKey = "prefetch_near";  // the same into the first-level cache
inline constexpr const char* kPipelineStagesKey = "software_pipeline_stage";  // of each part of the loop's body
inline constexpr const char* kPipelineOrderKey = "software_pipeline_order";   // the place of each part in an iteration
inline constexpr const char* kRollingBufferKey = "rolling_buffer";  // buffers that keep rows for the next iteration
inline constexpr const char* kMinBlocksKey = "min_blocks";          // blocks that a multiprocessor has room for at once
inline constexpr const char* kAlternatesKey = "alternates";         // 1: every other call runs its iterations backwards
inline constexpr const char* kAsyncCopyKey = "async_copy";  // copies to shared memory may go on until the next barrier
inline constexpr const char* kSwizzleKey = "swizzle";       // the shared buffer that it fills may be swizzled

inline constexpr const char* kBulkCopyKey = "bulk_copy";  // of a copy's outermost loop: the copy engine does it
inline constexpr const char* kSpecializeWarpsKey = "specialize_warps";  // on a pipelined loop: warps of their own copy
inline constexpr const char* kPersistentKey = "persistent";  // on a loop over blocks: how many blocks go through it
inline constexpr const char* kClusterKey = "cluster";        // on it: how many neighbouring blocks share bulk copies

// --- on blocks, by the schedule
inline constexpr const char* kTensorizeKey = "tensorize";  // the intrinsic that computes it; in lowering, on its loop
inline constexpr const char* kDoubleBufferKey = "double_buffer";  // the number of the write whose buffer has two places
inline constexpr const char* kAxisSeparatorKey = "axis_separator";  // with ".BUFFER": where its dimensions are grouped
inline constexpr const char* kClearsPadLanesKey = "clears_pad_lanes";  // 1: it makes zero what no element maps to

// --- on blocks, by reformulations (schedule/reformulation.h)
inline constexpr const char* kPartOfKey = "part_of";  // the block that it stands for, together with others
inline constexpr const char* kRoleKey = "role";       // what it is for among them
inline constexpr const char* kTilesKey = "tiles";     // {d, e, n}: made in tiles of n x n along dimensions d and e

// --- from pass to pass of lowering, on loops
inline constexpr const char* kCarriesKey = "carries";       // names of buffers that live on from iteration to iteration
inline constexpr const char* kPipelineKey = "pipeline";     // 1: its parts are marked with stage and place
inline constexpr const char* kStageKey = "pipeline_stage";  // of a part of a pipelined loop
inline constexpr const char* kOrderKey = "pipeline_order";  // its place in an iteration
inline constexpr const char* kLanesKey = "lanes";           // 1: it was vectorized, and may become one access
inline constexpr const char* kAsyncAheadKey = "async_ahead";      // turns that pass until copies begun in one are used
inline constexpr const char* kThreadRegionKey = "thread_region";  // 1: what a thread does without meeting others
inline constexpr const char* kWarpTileKey = "warp_tile";  // 1: a tile that a warp, or a group of warps, does together

}  // namespace fettle
