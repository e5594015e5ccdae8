#include "generations/metaschedule/schedule_rule.h"
#include "schedule/primitives.h"
#include "tune/parts/decider.h"

namespace fettle {

ScheduleRule parallelize_vectorize_unroll(ParallelizeVectorizeUnrollOptions options) {
  return {"parallelize_vectorize_unroll",
          [options = std::move(options)](const TuneContext& context, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            const BlockNode& root = s.func().root();
            // Once, whichever block comes first.
            if (root.annotations.find(keys::kVectorize) || root.name == name) return std::vector{s};
            Schedule annotated = s;
            annotated.set_address_prefix("parallelize_vectorize_unroll/" + root.name);
            FETTLE_TRY(const BlockRef block, get_block(annotated, {.name = root.name}));
            const int64_t jobs = context.threads > 1 ? int64_t{options.max_jobs_per_core} * context.threads : 0;
            if (jobs > 0)
              FETTLE_TRY_VOID(annotate(annotated, {.target = block, .key = keys::kParallel, .value = jobs}));
            FETTLE_TRY_VOID(
                annotate(annotated, {.target = block, .key = keys::kVectorize, .value = options.max_vectorize_extent}));
            if (!options.unroll_max_steps.empty()) {
              FETTLE_TRY(const int64_t value, sampling_decider().pick(annotated, {"unroll", options.unroll_max_steps}));
              FETTLE_TRY_VOID(annotate(annotated, {.target = block, .key = keys::kUnroll, .value = value}));
            }
            return std::vector{std::move(annotated)};
          }};
}

}  // namespace fettle
