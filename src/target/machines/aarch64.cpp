// Armv8.0, and Armv8.2 with dot products and integer matrix products.

#include "target/target_def.h"

namespace fettle {
namespace {

Target with_neon(std::string_view features) {
  return usual_cpu(
      {.arch = "aarch64", .cpu = "generic", .features = features, .vector_bits = 128, .vector_registers = 32});
}
Target neon() { return with_neon("+neon"); }
Target dotprod() { return with_neon("+dotprod,+i8mm,+neon"); }

}  // namespace

extern constinit const TargetDef aarch64_neon_target = {"aarch64-neon", neon};
extern constinit const TargetDef aarch64_dotprod_target = {"aarch64-dotprod", dotprod};

}  // namespace fettle
