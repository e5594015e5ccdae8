#include "rt/tiles.h"

#include <string.h>

#include "rt/sys.h"

namespace fettle::rt {
namespace {

constexpr int32_t kTiles = 8, kRows = 16, kRowBytes = 64;

/// What `ldtilecfg` reads (Intel 64 and IA-32 Architectures Software Developer's Manual, 18.2): palette 1 has eight
/// tiles of up to 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig whole_tiles() {
  TileConfig config{};
  config.palette = 1;
  for (int32_t t = 0; t < kTiles; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = kRows;
  }
  return config;
}
constexpr TileConfig kWholeTiles = whole_tiles();

struct SavedTiles {
  TileConfig config;
  char data[kTiles][kRows * kRowBytes];
};
static_assert(sizeof(SavedTiles) == sizeof(FettleTileState));

}  // namespace

#if defined(__x86_64__)

bool permit_tiles() {
  constexpr long kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  return syscall(kArchPrctl, kRequestPermission, kTileData) == 0;
}

namespace {

// The number of a tile is part of the instruction. A tile of no rows cannot be named.
#define FETTLE_EACH_TILE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

void store_tiles(SavedTiles& to) {
#define FETTLE_STORE(t)  \
  if (to.config.rows[t]) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to.data[t]), "r"(int64_t{kRowBytes}) : "memory");
  FETTLE_EACH_TILE(FETTLE_STORE)
#undef FETTLE_STORE
}

void load_tiles(const SavedTiles& from) {
#define FETTLE_LOAD(t)     \
  if (from.config.rows[t]) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from.data[t]), "r"(int64_t{kRowBytes}) : "memory");
  FETTLE_EACH_TILE(FETTLE_LOAD)
#undef FETTLE_LOAD
}

}  // namespace

#else

bool permit_tiles() { return false; }

#endif

}  // namespace fettle::rt

extern "C" {

void fettle_tiles_begin(FettleTileState* before) {
#if defined(__x86_64__)
  using namespace fettle::rt;
  auto& saved = *reinterpret_cast<SavedTiles*>(before);
  __asm__ volatile("sttilecfg %0" : "=m"(saved.config));
  if (saved.config.palette != 0) store_tiles(saved);
  __asm__ volatile("ldtilecfg %0" : : "m"(kWholeTiles));
#else
  (void)before;
#endif
}

void fettle_tiles_end(const FettleTileState* before) {
#if defined(__x86_64__)
  using namespace fettle::rt;
  const auto& saved = *reinterpret_cast<const SavedTiles*>(before);
  if (saved.config.palette == 0) {
    __asm__ volatile("tilerelease");
    return;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(saved.config));
  load_tiles(saved);
#else
  (void)before;
#endif
}
}
