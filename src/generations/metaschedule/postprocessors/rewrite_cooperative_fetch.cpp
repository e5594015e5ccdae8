#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/unannotate.h"

namespace fettle {

Postprocessor rewrite_cooperative_fetch() {
  return {"rewrite_cooperative_fetch", [](const TuneContext& context, Schedule& s) -> Result<> {
            std::vector<std::string> copies;
            walk(s.func()->body, [&](const Stmt& stmt) {
              if (const auto* block = stmt.as<BlockNode>(); block && block->annotations.find(keys::kFetch))
                copies.push_back(block->name);
              return true;
            });
            for (const std::string& name : copies) {
              FETTLE_TRY(const BlockRef copy, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(unannotate(s, {.target = copy, .key = keys::kFetch}));
              if (context.target->has_threads()) FETTLE_TRY_VOID(share_among_threads(s, copy));
            }
            return {};
          }};
}

}  // namespace fettle
