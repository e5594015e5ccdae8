#include "tune/metaschedule/postprocessor.h"
#include "tune/sketch/loop_annotation.h"

namespace fettle {

Postprocessor rewrite_reduction_block() {
  return {"rewrite_reduction_block",
          [](const TuneContext&, Schedule& s) -> Result<> { return decompose_reductions(s); }};
}

}  // namespace fettle
