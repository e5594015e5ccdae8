#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/edit/edit.h"

namespace fettle {

Postprocessor disallow_dynamic_loop() {
  return {"disallow_dynamic_loop", [](const TuneContext&, Schedule& s) -> Result<> {
            const StmtNode* dynamic = nullptr;
            walk(s.func()->body, [&](const Stmt& stmt) {
              const auto* loop = stmt.as<ForNode>();
              if (loop && !as_int(loop->extent)) dynamic = loop;
              return !dynamic;
            });
            if (!dynamic) return {};
            return fail_at(ErrorCode::E221, s.func(), dynamic, "the loop's extent is not a constant",
                           "disallow_dynamic_loop");
          }};
}

}  // namespace fettle
