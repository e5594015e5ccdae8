#include "generations/ansor/sketch/layout_rewrite.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor rewrite_layout() {
  return {"rewrite_layout", [](const TuneContext& context, Schedule& s) -> Result<> {
            FETTLE_TRY_VOID(rewrite_constant_layouts(s));
            return insert_transform_stages(s, context.threads);
          }};
}

}  // namespace fettle
