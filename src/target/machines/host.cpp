// This machine.

#include "target/target_def.h"

namespace fettle {

extern constinit const TargetDef host_target = {.name = "host", .make = [] { return detect_host(); }, .also = "native"};

}  // namespace fettle
