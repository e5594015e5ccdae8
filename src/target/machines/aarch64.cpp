// Armv8.0, and Armv8.2 with dot products and integer matrix products.

#include "target/target_def.h"

namespace fettle {
namespace {

Target neon(std::string_view features) {
  return usual_cpu(
      {.arch = "aarch64", .cpu = "generic", .features = features, .vector_bits = 128, .vector_registers = 32});
}

}  // namespace

extern constinit const TargetDef aarch64_neon_target = {"aarch64-neon", [] { return neon("+neon"); }};

extern constinit const TargetDef aarch64_dotprod_target = {"aarch64-dotprod",
                                                           [] { return neon("+dotprod,+i8mm,+neon"); }};

}  // namespace fettle
