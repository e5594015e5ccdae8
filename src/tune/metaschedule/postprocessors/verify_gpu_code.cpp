#include "tune/metaschedule/postprocessor.h"
#include "tune/sketch/thread_binding.h"

namespace fettle {

Postprocessor verify_gpu_code() {
  return {"verify_gpu_code",
          [](const TuneContext& context, Schedule& s) { return fits_threads(s.func(), *context.target); }};
}

}  // namespace fettle
