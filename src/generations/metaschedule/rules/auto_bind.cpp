#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"

namespace fettle {

ScheduleRule auto_bind(AutoBindOptions options) {
  return {"auto_bind",
          [options = std::move(options)](const TuneContext& context, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            if (!context.target->has_threads() || !is_unbound(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            std::vector<int64_t> extents;
            for (const int64_t extent : options.thread_extents)
              if (extent <= context.target->max_threads_per_block) extents.push_back(extent);
            if (extents.empty()) return std::vector{s};
            Schedule bound = s;
            bound.set_address_prefix("auto_bind/" + name);
            FETTLE_TRY(const BlockRef block, get_block(bound, {.name = name}));
            FETTLE_TRY(const ValueRef threads, draw_threads(bound, extents));
            FETTLE_TRY_VOID(bind_outer_loops(bound, block, IntRef(threads)));
            return std::vector{std::move(bound)};
          }};
}

}  // namespace fettle
