#include "rt/cpu.h"

#include <string.h>

#include "rt/tiles.h"

namespace fettle::rt {
namespace {

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };
enum State : uint8_t {
  kNone,
  kAvx,
  kAvx512,
  kAmx
};  // registers that the system must save for the feature to be usable

struct Feature {
  char name[20];
  uint32_t leaf;
  uint8_t subleaf;
  Register reg;
  uint8_t bit;
  State state;
};

// Those that a compiler chooses by itself. What takes an explicit request (random numbers, cache control) has no place
// here.
constexpr Feature kFeatures[] = {
    {"sse2", 1, 0, kEdx, 26, kNone},
    {"sse3", 1, 0, kEcx, 0, kNone},
    {"pclmul", 1, 0, kEcx, 1, kNone},
    {"ssse3", 1, 0, kEcx, 9, kNone},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"sse4.1", 1, 0, kEcx, 19, kNone},
    {"sse4.2", 1, 0, kEcx, 20, kNone},
    {"movbe", 1, 0, kEcx, 22, kNone},
    {"popcnt", 1, 0, kEcx, 23, kNone},
    {"aes", 1, 0, kEcx, 25, kNone},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"bmi", 7, 0, kEbx, 3, kNone},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"bmi2", 7, 0, kEbx, 8, kNone},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"gfni", 7, 0, kEcx, 8, kNone},
    {"vaes", 7, 0, kEcx, 9, kAvx},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvx},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512},
    {"amx-bf16", 7, 0, kEdx, 22, kAmx},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512},
    {"amx-tile", 7, 0, kEdx, 24, kAmx},
    {"amx-int8", 7, 0, kEdx, 25, kAmx},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvx},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNone},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNone},
    {"prfchw", 0x80000001, 0, kEcx, 8, kNone},
    {"xop", 0x80000001, 0, kEcx, 11, kAvx},
    {"fma4", 0x80000001, 0, kEcx, 16, kAvx},
    {"tbm", 0x80000001, 0, kEcx, 21, kNone},
};

bool cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  uint32_t top = leaf & 0x80000000, ignored_b, ignored_c, ignored_d;
  asm volatile("cpuid" : "+a"(top), "=b"(ignored_b), "=c"(ignored_c), "=d"(ignored_d) : "2"(0));
  if (top < leaf) return false;
  asm volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "0"(leaf), "2"(subleaf));
  return true;
}

bool system_saves(State state) {
  if (state == kNone) return true;
  uint32_t out[4];
  if (!cpuid(1, 0, out) || ((out[kEcx] >> 27) & 1) == 0) return false;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t needed = state == kAvx ? 0x6 : state == kAvx512 ? 0xe6 : 0x60006;
  return (low & needed) == needed;
}

bool present(const Feature& feature) {
  uint32_t out[4];
  return cpuid(feature.leaf, feature.subleaf, out) && ((out[feature.reg] >> feature.bit) & 1) != 0 &&
         system_saves(feature.state) && (feature.state != kAmx || permit_tiles());
}

const Feature* find(const char* name, size_t length) {
  for (const Feature& feature : kFeatures)
    if (strlen(feature.name) == length && memcmp(feature.name, name, length) == 0) return &feature;
  return nullptr;
}

}  // namespace
}  // namespace fettle::rt

extern "C" int32_t fettle_cpu_check(const char* features, char* missing, int32_t missing_bytes) {
  using namespace fettle::rt;
  for (const char* at = features; *at != 0;) {
    if (*at == '+') ++at;
    const size_t length = strcspn(at, ",");
    const Feature* feature = find(at, length);
    if (length > 0 && (feature == nullptr || !present(*feature))) {
      if (missing_bytes > 0) {
        const size_t room = static_cast<size_t>(missing_bytes) - 1;
        const size_t take = length < room ? length : room;
        memcpy(missing, at, take);
        missing[take] = 0;
      }
      return feature == nullptr ? 2 : 1;
    }
    at += length;
    if (*at == ',') ++at;
  }
  return 0;
}
