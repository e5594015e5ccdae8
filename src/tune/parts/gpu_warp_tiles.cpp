#include "tune/parts/gpu_warp_tiles.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/ceil_div.h"

namespace fettle {
namespace {

constexpr WarpTiling kTiles[] = {{128, 256, 32, 64, 64}, {256, 128, 32, 64, 64}, {128, 128, 32, 64, 64},
                                 {128, 128, 32, 64, 32}, {128, 64, 32, 32, 32},  {64, 128, 32, 32, 32},
                                 {64, 64, 64, 32, 32},   {64, 64, 32, 32, 32},   {32, 64, 64, 16, 32},
                                 {64, 32, 64, 32, 16},   {32, 32, 64, 16, 16},   {16, 64, 64, 16, 16},
                                 {16, 32, 64, 16, 8}};
constexpr int64_t kParts[] = {1, 2, 3, 4, 6, 8, 12, 16};

// Of a multiprocessor, in a cycle: products, bytes that its warps read of shared memory, and bytes that reach it from
// the cache that all share; bytes from memory to all. Cycles that a step takes whatever it does, and waits for memory
// where one block is alone; of a block's begin and end; of a second launch.
constexpr double kProducts = 1024, kSharedBytes = 100, kNearBytes = 48, kFarBytes = 1800;
constexpr double kStep = 60, kLatency = 700, kBlock = 1400, kLaunch = 2600;
constexpr double kFrequency = 1.6e9;

}  // namespace

WarpTiling warp_tiling(int64_t number) {
  WarpTiling tiling = kTiles[static_cast<size_t>(number) / std::size(kParts)];
  tiling.parts = kParts[static_cast<size_t>(number) % std::size(kParts)];
  return tiling;
}

std::string describe(const WarpTiling& t) {
  return fmt::format("{}x{}x{} by {} warps{}", t.rows, t.columns, t.terms, t.warps(),
                     t.parts > 1 ? fmt::format(", {} parts", t.parts) : "");
}

double predicted_seconds(const WarpTiling& t, const ProductShape& s, const Target& target) {
  const double units = target.gpu ? target.gpu->multiprocessors : 1;
  const auto steps = static_cast<double>(ceil_div(s.terms, t.terms * t.parts));
  const auto blocks =
      static_cast<double>(s.batch * t.parts * ceil_div(s.rows, t.rows) * ceil_div(s.columns, t.columns));
  // As many blocks are at work on a multiprocessor as keep it busy; one alone waits for memory.
  const double products = static_cast<double>(t.rows * t.columns * t.terms) / kProducts;
  const double shared = static_cast<double>(t.warps() * (t.warp_rows + t.warp_columns) * t.terms * 2) / kSharedBytes;
  const double own = std::max(products, shared) + kStep;
  const double bytes = static_cast<double>((t.rows + t.columns) * t.terms * 2) / kNearBytes;
  const double together = std::max(own, bytes), alone = std::max(together, kLatency / (WarpTiling::kMostStages - 1));
  const double turns = std::ceil(blocks / units);
  const double near = kBlock * std::ceil(turns / 2) + steps * (alone + (turns - 1) * together);
  const auto made = static_cast<double>(s.batch * s.rows * s.columns);
  const double far = (static_cast<double>(s.batch * (s.rows + s.columns) * s.terms) * 2 + made * 2) / kFarBytes;
  const double adding = t.parts > 1 ? kLaunch + made * 8 * static_cast<double>(t.parts) / (kNearBytes * units) : 0.0;
  return (std::max(near, far) + adding) / kFrequency;
}

std::vector<int64_t> fastest_warp_tilings(const ProductShape& shape, const Target& target) {
  std::vector<std::pair<double, int64_t>> all;
  for (int64_t number = 0; number < std::ssize(kTiles) * std::ssize(kParts); ++number) {
    const WarpTiling tiling = warp_tiling(number);
    // Each part has two steps at least.
    if (tiling.parts > 1 && ceil_div(shape.terms, tiling.terms) < 2 * tiling.parts) continue;
    all.emplace_back(predicted_seconds(tiling, shape, target), number);
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  constexpr size_t kOffered = 24;
  std::vector<int64_t> numbers;
  for (const auto& [seconds, number] : all)
    if (numbers.size() < kOffered) numbers.push_back(number);
  return numbers;
}

}  // namespace fettle
