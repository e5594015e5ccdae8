// AVX2 with the smallest of caches.

#include "target/target_def.h"

namespace fettle {
namespace {

Target make() {
  Target target = usual_cpu({.cpu = "x86-64-v3",
                             .features = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,"
                                         "+sse4.2,+ssse3",
                             .vector_bits = 256,
                             .vector_registers = 16});
  target.caches = {{4 << 10, 2, 64, 1}, {64 << 10, 4, 64, 1}};
  return target;
}

}  // namespace

extern constinit const TargetDef pocket_target = {"x86-64-pocket", make};

}  // namespace fettle
