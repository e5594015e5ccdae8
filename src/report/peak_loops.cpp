#include "report/peak_loops.h"

#include <immintrin.h>

#include "rt/cpu.h"

namespace fettle {
namespace {

// Sums that do not wait for each other: enough to hide the latency of two units.
constexpr int kSums = 12;

// The compiler must not know what is in x, nor drop it.
template <class Vector>
__attribute__((target("avx512f"))) void opaque(Vector& x) {
  __asm__ volatile("" : "+v"(x));
}

__attribute__((target("avx512f"))) void fp32_avx512(int64_t n) {
  __m512 values[kSums] = {}, a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
  opaque(a);
  opaque(b);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) {
      __m512& x = values[j];
      switch (j % 4) {
        case 0:
          x = _mm512_fmadd_ps(x, a, b);
          break;
        case 1:
          x = _mm512_mul_ps(x, a);
          break;
        case 2:
          x = _mm512_max_ps(x, b);
          break;
        default:
          x = _mm512_add_ps(x, a);
          break;
      }
      opaque(x);
    }
}

__attribute__((target("avx2,fma"))) void fp32_avx2(int64_t n) {
  __m256 values[kSums] = {}, a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
  __asm__ volatile("" : "+x"(a), "+x"(b));
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) {
      __m256& x = values[j];
      switch (j % 4) {
        case 0:
          x = _mm256_fmadd_ps(x, a, b);
          break;
        case 1:
          x = _mm256_mul_ps(x, a);
          break;
        case 2:
          x = _mm256_max_ps(x, b);
          break;
        default:
          x = _mm256_add_ps(x, a);
          break;
      }
      __asm__ volatile("" : "+x"(x));
    }
}

__attribute__((target("avx512f,avx512vnni"))) void int8_vnni512(int64_t n) {
  __m512i sums[kSums] = {}, a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(2);
  opaque(a);
  opaque(b);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
      opaque(sum);
    }
}

__attribute__((target("avx2,avxvnni"))) void int8_vnni256(int64_t n) {
  __m256i sums[kSums] = {}, a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(2);
  __asm__ volatile("" : "+x"(a), "+x"(b));
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      sum = _mm256_dpbusd_avx_epi32(sum, a, b);
      __asm__ volatile("" : "+x"(sum));
    }
}

__attribute__((target("avx2"))) void int8_avx2(int64_t n) {
  __m256i sums[kSums] = {}, a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(2), ones = _mm256_set1_epi16(1);
  __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(ones));
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      __m256i pairs = _mm256_maddubs_epi16(a, b);
      __asm__ volatile("" : "+x"(pairs));  // or it would leave the loop
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
      __asm__ volatile("" : "+x"(sum));
    }
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_avx512(int64_t n) {
  __m512 sums[kSums] = {};
  __m512i a = _mm512_set1_epi16(0x3f80), b = _mm512_set1_epi16(0x3f80);
  opaque(a);
  opaque(b);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh&>(a), reinterpret_cast<__m512bh&>(b));
      opaque(sum);
    }
}

// Two tiles of each factor, four of sums (Intel's AMX). The unit is set up and released around the loop.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTileConfig;
constexpr int kTileProducts = 4;
constexpr double kTileSums = 16.0 * 16;

// As `asm` by itself: the compiler's intrinsics read but the first bytes of the configuration.
__attribute__((target("amx-tile"))) void begin_tiles() {
  __asm__ volatile("ldtilecfg %0" : : "m"(kTileConfig));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

__attribute__((target("amx-tile,amx-int8"))) void int8_amx(int64_t n) {
  begin_tiles();
  for (int64_t i = 0; i < n; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void bf16_amx(int64_t n) {
  begin_tiles();
  for (int64_t i = 0; i < n; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

bool has(const char* features) {
  char missing[32];
  return fettle_cpu_check(features, missing, sizeof missing) == 0;
}

}  // namespace

PeakLoop fp32_loop() {
  if (__builtin_cpu_supports("avx512f")) return {"vfmadd, vmulps, vmaxps, vaddps, 512 bits", kSums * 16.0, fp32_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"vfmadd, vmulps, vmaxps, vaddps, 256 bits", kSums * 8.0, fp32_avx2};
  return {};
}

PeakLoop int8_loop() {
  if (has("amx-tile,amx-int8")) return {"tdpbusd", kTileProducts * kTileSums * 64 * 2, int8_amx};
  if (__builtin_cpu_supports("avx512vnni")) return {"vpdpbusd, 512 bits", kSums * 64 * 2.0, int8_vnni512};
  if (__builtin_cpu_supports("avxvnni")) return {"vpdpbusd, 256 bits", kSums * 32 * 2.0, int8_vnni256};
  if (__builtin_cpu_supports("avx2")) return {"vpmaddubsw, vpmaddwd, vpaddd", kSums * 32 * 2.0, int8_avx2};
  return {};
}

PeakLoop bf16_loop() {
  if (has("amx-tile,amx-bf16")) return {"tdpbf16ps", kTileProducts * kTileSums * 32 * 2, bf16_amx};
  if (__builtin_cpu_supports("avx512bf16")) return {"vdpbf16ps, 512 bits", kSums * 32 * 2.0, bf16_avx512};
  return {};
}

}  // namespace fettle
