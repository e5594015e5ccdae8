#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor rewrite_reduction_block() {
  return {"rewrite_reduction_block",
          [](const TuneContext&, Schedule& s) -> Result<> { return decompose_reductions(s); }};
}

}  // namespace fettle
