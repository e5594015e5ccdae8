#pragma once
// MetaSchedule's schedule rules: functions from a schedule and one of its blocks to the schedules that may follow.
// (Shao et al.: Tensor Program Optimization with Probabilistic Programs, NeurIPS 2022.) They differ from the rules of
// space/ in that all alternatives are returned, and that they leave annotations which post-processors act on.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generations/ansor/sketch/multi_level_tiling.h"
#include "schedule/schedule.h"

namespace fettle {

/// What rules and post-processors know beside the program.
struct TuneContext {
  std::shared_ptr<const Target> target;
  int threads = 1;
};

struct ScheduleRule {
  std::string name;
  /// The schedule as it is where the rule does not apply; every alternative where it does. Decisions are sampled under
  /// addresses that begin with the rule's name and the block's. Errors: where the rule applies and its steps are
  /// refused in each way.
  std::function<Result<std::vector<Schedule>>(const TuneContext&, const Schedule&, const std::string& block)> apply;
  /// Where it would be dear to make all alternatives for the one that is drawn, may be empty: how many there are, and
  /// the one of that number.
  std::function<size_t(const TuneContext&, const Schedule&, const std::string& block)> count = nullptr;
  std::function<Result<Schedule>(const TuneContext&, const Schedule&, const std::string& block, size_t number)>
      alternative = nullptr;
};

/// Keys of annotations that post-processors read, and take away.
namespace keys {
inline constexpr const char* kParallel = "metaschedule_parallel";  // on the root: most iterations that run in parallel
inline constexpr const char* kVectorize = "metaschedule_vectorize";       // on the root: most lanes
inline constexpr const char* kUnroll = "metaschedule_unroll";             // on the root: limit of auto_unroll_max_step
inline constexpr const char* kFetch = "metaschedule_cooperative_fetch";   // on a copy: elements a thread takes at once
inline constexpr const char* kTensorize = "metaschedule_auto_tensorize";  // on a tile: the intrinsic
inline constexpr const char* kScheduleRule = "schedule_rule";  // on a block: the custom rule that it gets, or "None"
}  // namespace keys

// --- rules, in metaschedule/rules/ ----------------------------------------------------------------------------------

/// The rule that the block's annotation "schedule_rule" names, of those given; blocks without it stay. E241 no such
/// rule
ScheduleRule apply_custom_rule(std::map<std::string, ScheduleRule> rules = {});

/// On CPUs, what fast floating point has LLVM do to TVM's loops: reductions along rows get lanes to work in
/// (generations/ansor/sketch/row_lanes.h). The parts are no business of other rules, and go where
/// random_compute_location puts the total. Comes before all rules that edit.
ScheduleRule rows_in_lanes();

/// A 3x3 convolution of stride 1 with constant weights is computed as it is written, or by Winograd's F(2x2) or F(4x4),
/// over the whole image or in strips, whose product other rules tile (generations/ansor/sketch/winograd.h). Comes
/// before all rules that edit.
ScheduleRule winograd();

/// A block that writes one constant is computed where it is read.
ScheduleRule inline_constant_scalars();

struct AutoInlineOptions {
  bool into_producer = false;
  bool into_consumer = true;
  /// Only what keeps the order of its elements, selects nothing and calls nothing costly (is_strict_inlinable).
  bool strict = true;
  /// A padding, or what a product reads over and over (is_operand_of_product), stays or is computed where it is read,
  /// each as likely: two alternatives. Arithmetic and guards in the innermost loop are dear; a padding's fall away
  /// where sums are in registers (generations/ansor/sketch/guarded_taps.h).
  bool operands = false;
};
/// A block is computed where it is read; or where what it reads is written.
ScheduleRule auto_inline(AutoInlineOptions options = {});

struct AddRFactorOptions {
  int max_jobs_per_core = 16;
  int64_t max_innermost = 64;
};
/// A reduction with little to do at once is fused, cut in two, and factored along either part.
ScheduleRule add_rfactor(AddRFactorOptions options = {});

/// When copies of what is reused are made: at which levels of the structure (from 1), in which scope.
struct Reuse {
  enum class When : uint8_t { kNever, kMay, kMust };
  When when = When::kNever;
  std::vector<int> levels = {};
  std::string scope = "global";
};
struct MultiLevelTilingOptions {
  MultiLevelTiling tiling = MultiLevelTiling("SSRSRS");
  Reuse read = {};
  Reuse write = {Reuse::When::kMay, {1, 2}, "global"};
};
/// Blocks with data reuse are tiled; results are written at once, or kept back in a copy below a level: that of the
/// consumer, where there is one to fuse.
ScheduleRule multi_level_tiling(MultiLevelTilingOptions options = {});
/// The innermost tile is what a tensor intrinsic computes; the tiles are tiled, and written
/// at once. Blocks that do not fit stay.
ScheduleRule multi_level_tiling_with_intrin(std::string intrinsic, MultiLevelTilingOptions options = {});
/// Products on tensor cores: blocks of warps, operands in shared memory, tiles by an intrinsic of a warp
/// (mma_m16n8k16_f16).
ScheduleRule multi_level_tiling_tensor_core(std::string intrinsic = "mma_m16n8k16_f16");
/// The innermost spatial loop is cut into whole vectors first, which are never cut again: for machines whose vectors
/// are wide.
ScheduleRule multi_level_tiling_wide_vector(int vector_bits, MultiLevelTilingOptions options = {});

struct ParallelizeVectorizeUnrollOptions {
  int max_jobs_per_core = 16;  // 0: nothing in parallel
  int64_t max_vectorize_extent = 64;
  std::vector<int64_t> unroll_max_steps = {0, 16, 64, 512};
};
/// Annotates the root with how much may run in parallel, in lanes and unrolled; one decision.
ScheduleRule parallelize_vectorize_unroll(ParallelizeVectorizeUnrollOptions options = {});

/// What stands alone in its nest and is read by others is computed at a random place.
ScheduleRule random_compute_location();

struct AutoBindOptions {
  std::vector<int64_t> thread_extents = {32, 64, 128, 256};
};
/// A nest without threads gets them: its outer loops are fused, and cut into blocks of threads.
ScheduleRule auto_bind(AutoBindOptions options = {});

struct CrossThreadReductionOptions {
  std::vector<int64_t> thread_extents = {4, 8, 16, 32, 64};
};
/// A reduction with little to do at once is done by the threads of a block together: a part each, which one adds up.
ScheduleRule cross_thread_reduction(CrossThreadReductionOptions options = {});

}  // namespace fettle
