#include "generations/metaschedule/schedule_rule.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/sample_categorical.h"

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
              FETTLE_TRY(const ValueRef steps, sample_categorical(annotated, {.candidates = options.unroll_max_steps,
                                                                              .probabilities = std::vector<double>(
                                                                                  options.unroll_max_steps.size(), 1.0),
                                                                              .name = "unroll"}));
              FETTLE_TRY(const int64_t value, annotated.value(IntRef(steps)));
              FETTLE_TRY_VOID(annotate(annotated, {.target = block, .key = keys::kUnroll, .value = value}));
            }
            return std::vector{std::move(annotated)};
          }};
}

}  // namespace fettle
