#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor verify_gpu_code() {
  return {"verify_gpu_code",
          [](const TuneContext& context, Schedule& s) { return fits_threads(s.func(), *context.target); }};
}

}  // namespace fettle
