#include "tune/metaschedule/postprocessor.h"
#include "tune/sketch/layout_rewrite.h"

namespace fettle {

Postprocessor rewrite_layout() {
  return {"rewrite_layout", [](const TuneContext&, Schedule& s) -> Result<> { return rewrite_constant_layouts(s); }};
}

}  // namespace fettle
