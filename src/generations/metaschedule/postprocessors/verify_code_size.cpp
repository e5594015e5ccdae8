#include "generations/ansor/sketch/unrolled_size.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor verify_code_size() {
  return {"verify_code_size",
          [](const TuneContext&, Schedule& s) -> Result<> { return verify_unrolled_size(s.func()); }};
}

}  // namespace fettle
