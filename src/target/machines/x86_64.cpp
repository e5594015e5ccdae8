// x86-64 at two levels of its psABI, x86-64-v3 and -v4, with what they have for sure; and with a tile unit.

#include "target/target_def.h"

namespace fettle {
namespace {

constexpr std::string_view kAvx2Features =
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";
constexpr std::string_view kAvx512Features =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,"
    "+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";

constexpr std::string_view kAmxFeatures =
    "+amx-bf16,+amx-int8,+amx-tile,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,"
    "+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+avxvnni,+bmi,+bmi2,+f16c,+fma,"
    "+lzcnt,+movbe,+popcnt,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";

Target avx2() {
  return usual_cpu({.cpu = "x86-64-v3", .features = kAvx2Features, .vector_bits = 256, .vector_registers = 16});
}

Target avx512() {
  return usual_cpu({.cpu = "x86-64-v4", .features = kAvx512Features, .vector_bits = 512, .vector_registers = 32});
}

// What Intel's server cores have from Sapphire Rapids on, and their caches.
Target amx() {
  Target target = usual_cpu({.cpu = "x86-64-v4", .features = kAmxFeatures, .vector_bits = 512, .vector_registers = 32});
  target.caches = {{48 << 10, 12, 64, 1}, {2 << 20, 16, 64, 1}, {32 << 20, 16, 64, 2}};
  return target;
}

}  // namespace

extern constinit const TargetDef x86_64_amx_target = {.name = "x86-64-amx", .make = amx, .also = "sapphirerapids"};
extern constinit const TargetDef x86_64_avx2_target = {.name = "x86-64-avx2", .make = avx2, .also = "x86-64-v3"};
extern constinit const TargetDef x86_64_avx512_target = {.name = "x86-64-avx512", .make = avx512, .also = "x86-64-v4"};

}  // namespace fettle
