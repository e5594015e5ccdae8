#include <algorithm>

#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"

namespace fettle {

Postprocessor rewrite_unbound_block(int64_t threads_per_block) {
  return {"rewrite_unbound_block", [threads_per_block](const TuneContext& context, Schedule& s) -> Result<> {
            if (!context.target->has_threads()) return {};
            const int64_t threads = std::min(threads_per_block, context.target->max_threads_per_block);
            for (const std::string& name : nest_blocks(s.func())) {
              if (!is_unbound(s.func(), *find_block(s.func()->body, name))) continue;
              FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(bind_outer_loops(s, block, IntRef(threads)));
            }
            return {};
          }};
}

}  // namespace fettle
