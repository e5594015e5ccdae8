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
            if (root.annotations.find(notes::kVectorize) || root.name == name) return std::vector{s};
            Schedule noted = s;
            noted.set_address_prefix("parallelize_vectorize_unroll/" + root.name);
            FETTLE_TRY(const BlockRef block, get_block(noted, {.name = root.name}));
            const int64_t jobs = context.threads > 1 ? int64_t{options.max_jobs_per_core} * context.threads : 0;
            if (jobs > 0) FETTLE_TRY_VOID(annotate(noted, {.target = block, .key = notes::kParallel, .value = jobs}));
            FETTLE_TRY_VOID(
                annotate(noted, {.target = block, .key = notes::kVectorize, .value = options.max_vectorize_extent}));
            if (!options.unroll_max_steps.empty()) {
              FETTLE_TRY(const int64_t value, sampling_decider().pick(noted, {"unroll", options.unroll_max_steps}));
              FETTLE_TRY_VOID(annotate(noted, {.target = block, .key = notes::kUnroll, .value = value}));
            }
            return std::vector{std::move(noted)};
          }};
}

}  // namespace fettle
