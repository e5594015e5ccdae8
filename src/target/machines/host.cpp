// This machine.

#include "target/target_def.h"

namespace fettle {

extern constinit const TargetDef host_target = {"host", [] { return detect_host(); }};

}  // namespace fettle
