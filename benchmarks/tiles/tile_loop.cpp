#include "tiles/tile_loop.h"

#include <immintrin.h>
#include <omp.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>

namespace fettle::bench {
namespace {

constexpr int kSteps = 2000;

struct alignas(64) Config {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

struct alignas(64) Tiles {
  char bytes[1024] = {};
};

// Numbers as operands have them: on zeros the unit runs at a higher clock. Normal ones of bf16, or bytes.
void fill(Tiles& tiles, bool bytes, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < sizeof(tiles.bytes); i += 2) {
    const std::uint32_t value =
        bytes ? static_cast<std::uint32_t>(random()) : std::bit_cast<std::uint32_t>(normal(random));
    const auto half = static_cast<std::uint16_t>(value >> 16);
    std::memcpy(tiles.bytes + i, &half, 2);
  }
}

std::array<Tiles, 4> filled(bool bytes) {
  std::array<Tiles, 4> all;
  std::mt19937 random(1);
  for (Tiles& tiles : all) fill(tiles, bytes, random);
  return all;
}

__attribute__((target("amx-tile,amx-bf16,amx-int8"))) void loop(bool bytes) {
  static const Config config;  // GCC drops what initialises another: it takes the first bytes to be all that is read
  static const std::array<Tiles, 4> halves = filled(false), whole = filled(true);
  const Tiles *a = bytes ? whole.data() : halves.data(), *b = a + 2;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int i = 0; i < kSteps; ++i) {
    _tile_loadd(4, a[0].bytes, 64);
    _tile_loadd(5, a[1].bytes, 64);
    _tile_loadd(6, b[0].bytes, 64);
    _tile_loadd(7, b[1].bytes, 64);
    if (bytes) {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_release();
}

}  // namespace

Contender tile_loop(bool bytes, int threads) {
  const double flops = 2.0 * 16 * 16 * (bytes ? 64 : 32) * 4 * kSteps * threads;
  return {.name = "tiles from L1",
          .run =
              [=] {
#pragma omp parallel num_threads(threads)
                loop(bytes);
              },
          .flops = flops};
}

}  // namespace fettle::bench
