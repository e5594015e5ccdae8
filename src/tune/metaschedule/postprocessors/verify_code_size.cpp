#include "tune/metaschedule/postprocessor.h"
#include "tune/sketch/unrolled_size.h"

namespace fettle {

Postprocessor verify_code_size() {
  return {"verify_code_size",
          [](const TuneContext&, Schedule& s) -> Result<> { return verify_unrolled_size(s.func()); }};
}

}  // namespace fettle
