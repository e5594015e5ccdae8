#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/rfactor.h"

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

}  // namespace fettle
