#include "analysis/verify.h"
#include "lower/device/device.h"
#include "tune/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor verify_gpu_code() {
  return {"verify_gpu_code", [](const TuneContext& context, Schedule& s) -> Result<> {
            if (!context.target->has_threads())
              return fail(ErrorCode::E301, "the target has no threads", "verify_gpu_code");
            FETTLE_TRY_VOID(verify(s.func(), *context.target));
            // Threads of a block, shared memory and barriers are what lowering makes of it.
            FETTLE_TRY(const DeviceProgram program, lower_for_device(s.func(), *context.target));
            for (const auto& [name, kernel] : program.kernels)
              if (kernel.block[0] * kernel.block[1] * kernel.block[2] > context.target->max_threads_per_block)
                return fail(ErrorCode::E230, "too many threads in a block of " + name, "verify_gpu_code");
            return {};
          }};
}

}  // namespace fettle
