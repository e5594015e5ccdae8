// Whatever a C compiler makes of it: nothing is known but that there is memory.

#include "target/target_def.h"

namespace fettle {
namespace {

Target make() {
  Target target = usual_cpu({.cpu = "generic", .features = "", .vector_bits = 128, .vector_registers = 16});
  target.kind = "c";
  return target;
}

}  // namespace

extern constinit const TargetDef c_target = {"c", make};

}  // namespace fettle
