// x86-64 at two levels of its psABI, x86-64-v3 and -v4: with what they have for sure.

#include "target/target_def.h"

namespace fettle {
namespace {

constexpr std::string_view kAvx2Features =
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";
constexpr std::string_view kAvx512Features =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,"
    "+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";

Target avx2() {
  return usual_cpu({.cpu = "x86-64-v3", .features = kAvx2Features, .vector_bits = 256, .vector_registers = 16});
}

Target avx512() {
  return usual_cpu({.cpu = "x86-64-v4", .features = kAvx512Features, .vector_bits = 512, .vector_registers = 32});
}

}  // namespace

extern constinit const TargetDef x86_64_avx2_target = {"x86-64-avx2", avx2};
extern constinit const TargetDef x86_64_avx512_target = {"x86-64-avx512", avx512};

}  // namespace fettle
