#include "codegen/cuda/instructions.h"

namespace fettle {

// PTX ISA, "cvt": f16 from sm_53 on, bf16 from sm_80 on.
std::map<std::string, std::string, std::less<>> cuda_helpers() {
  return {
      {"f32_from_f16", R"(float f32_from_f16(unsigned short h) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(h));
  return value;
}
)"},
      {"f16_from_f32", R"(unsigned short f16_from_f32(float a) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(a));
  return bits;
}
)"},
      {"f32_from_bf16", R"(float f32_from_bf16(unsigned short h) {
  return __uint_as_float((unsigned int)h << 16);
}
)"},
      {"bf16_from_f32", R"(unsigned short bf16_from_f32(float a) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(a));
  return bits;
}
)"},
      {"rsqrt_f32", R"(float rsqrt_f32(float a) {
  return rsqrtf(a);
}
)"},
  };
}

}  // namespace fettle
