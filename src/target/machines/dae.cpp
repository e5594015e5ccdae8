// The accelerator that codegen/dae simulates.

#include "target/accelerator.h"
#include "target/target_def.h"

namespace fettle {

extern constinit const TargetDef dae_target = {"dae", accelerator_target};

}  // namespace fettle
