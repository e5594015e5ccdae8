// Reductions with little to do at once: a part of them becomes a dimension, or the threads of a block share it.

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/primitives.h"

namespace fettle {

ScheduleRule add_rfactor(AddRFactorOptions options) {
  return {"add_rfactor",
          [options](const TuneContext& context, const Schedule& s,
                    const std::string& name) -> Result<std::vector<Schedule>> {
            if (!has_more_reduction_parallel(s.func(), *find_block(s.func()->body, name),
                                             context.threads * options.max_jobs_per_core / 16))
              return std::vector{s};
            Schedule cut = s;
            cut.set_address_prefix("add_rfactor/" + name);
            FETTLE_TRY(const BlockRef block, get_block(cut, {.name = name}));
            auto parts = cut_reduction(cut, block, options.max_innermost);
            if (!parts) return std::vector{s};
            std::vector<Schedule> next = {s};
            for (const LoopRef& part : {(*parts)[1], (*parts)[0]}) {
              Schedule factored = cut;
              if (rfactor(factored, {.block = block, .loop = part, .factor_axis = -1}))
                next.push_back(std::move(factored));
            }
            return next;
          }};
}

ScheduleRule cross_thread_reduction(CrossThreadReductionOptions options) {
  return {"cross_thread_reduction",
          [options = std::move(options)](const TuneContext& context, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            constexpr int kParallelBelow = 64;  // a GPU has that many blocks to fill at least
            if (!context.target->has_threads() || is_tiled(s.func(), name) ||
                !has_more_reduction_parallel(s.func(), *find_block(s.func()->body, name), kParallelBelow) ||
                !is_unbound(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            std::vector<Schedule> next = {s};
            Schedule across = s;
            across.set_address_prefix("cross_thread_reduction/" + name);
            FETTLE_TRY(const BlockRef block, get_block(across, {.name = name}));
            if (reduce_across_threads(across, block, options.thread_extents)) next.push_back(std::move(across));
            return next;
          }};
}

}  // namespace fettle
