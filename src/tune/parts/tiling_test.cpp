#include "tune/parts/tiling.h"

#include <gtest/gtest.h>

#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;

TEST(RankedTiles, OfWindowsHoldWhatTheyShareInRegisters) {
  for (const auto& [taps, step] : {std::pair{int64_t{3}, int64_t{1}}, {5, 1}, {7, 1}, {3, 2}}) {
    TileProblem p{.row_extent = 112,
                  .second_row_extent = 112,
                  .vector_extent = 96,
                  .steps = taps * taps,
                  .shared_vectors = false};
    p.taps = p.second_taps = taps;
    p.row_step = p.second_step = step;
    const std::vector<Tile> tiles = ranked_tiles(p, *avx512());
    ASSERT_FALSE(tiles.empty());
    for (const Tile& tile : tiles) {
      const int64_t read = (tile.rows - 1) * step + taps;
      const int64_t registers = (tile.rows * tile.second_rows + (tile.second_rows > 1 ? 2 : 1) * read) * tile.vectors;
      EXPECT_LE(registers, 32) << tile.name();
    }
  }
}

// The best tile has several image rows, and keeps what their windows share from one tap to the next.
TEST(RankedTiles, OfWindowsTakeSeveralImageRows) {
  for (const int64_t size : {27, 28, 56, 112}) {
    TileProblem p{
        .row_extent = size, .second_row_extent = size, .vector_extent = 96, .steps = 9, .shared_vectors = false};
    p.taps = p.second_taps = 3;
    const Tile best = ranked_tiles(p, *avx512()).front();
    EXPECT_GT(best.second_rows, 1) << size;
    EXPECT_LE((best.rows + best.rows + 2) * best.second_rows * best.vectors, 32) << best.name();
  }
}

// A tile of as few sums as just cover the latency is no match for one of more, even where its panels stay nearer.
TEST(RankedTiles, OfProductsHaveMoreSumsThanTheLatencyAsksFor) {
  const auto target = avx512();
  const auto covers = static_cast<int64_t>(target->fma_per_cycle * target->fma_latency_cycles);
  for (const int64_t rows : {8, 12, 16, 20, 24, 32, 48, 64, 100}) {
    const TileProblem p{.row_extent = rows, .vector_extent = 1024, .steps = 256};
    const Tile best = ranked_tiles(p, *target).front();
    EXPECT_GT(best.rows * best.vectors, covers) << rows << ": " << best.name();
  }
}

}  // namespace
}  // namespace fettle
