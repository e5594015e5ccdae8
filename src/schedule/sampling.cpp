#include "schedule/sampling.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/check.h"
#include "target/caches.h"

namespace fettle {
namespace {

constexpr std::string_view kPositionNames[] = {"lanes", "rows", "depth", "outer"};

std::vector<int64_t> lane_candidates(int64_t extent, int64_t lanes) {
  if (extent < lanes) {
    int64_t power = 1;
    while (power < extent) power *= 2;
    return {power};
  }
  std::vector<int64_t> sizes;
  for (int64_t vectors : {1, 2, 3, 4, 6, 8})
    if (vectors * lanes < extent + lanes) sizes.push_back(vectors * lanes);
  return sizes;
}

std::vector<int64_t> row_candidates(int64_t extent, int64_t registers) {
  std::vector<int64_t> sizes;
  for (int64_t rows = 1; rows <= std::min(extent, std::max<int64_t>(registers - 2, 1)); ++rows)
    if (ceil_div(extent, ceil_div(extent, rows)) == rows) sizes.push_back(rows);
  return sizes;
}

std::vector<int64_t> depth_candidates(int64_t extent, int64_t vector_bytes, int64_t l2_bytes) {
  std::vector<int64_t> sizes = {extent};
  for (int64_t parts = 2; parts <= 8; ++parts)
    if (const int64_t part = ceil_div(ceil_div(extent, parts), 4) * 4; part >= 32 && part < extent)
      sizes.push_back(part);
  for (int64_t power = 64; power <= 4096 && power < extent; power *= 2) sizes.push_back(power);
  const auto too_large = [&](int64_t depth) { return depth * 2 * vector_bytes > l2_bytes / 2; };
  const int64_t smallest = std::ranges::min(sizes);
  std::erase_if(sizes, too_large);
  return sizes.empty() ? std::vector<int64_t>{smallest} : sizes;
}

std::vector<int64_t> outer_candidates(int64_t extent) {
  std::vector<int64_t> sizes = {extent};
  for (int64_t power = 1; power < extent; power *= 2) {
    sizes.push_back(power);
    if (power >= 2 && power / 2 * 3 < extent) sizes.push_back(power / 2 * 3);
  }
  return sizes;
}

}  // namespace

Applied sampled(Drawn drawn) {
  const Decision::List& list = drawn.decision.list();
  Applied applied{nullptr, {list.begin(), list.end()}};
  applied.decision = std::move(drawn.decision);
  applied.address = std::move(drawn.address);
  return applied;
}

std::string_view tile_position_name(TilePosition position) { return kPositionNames[static_cast<size_t>(position)]; }

ArgValue to_arg(TilePosition x) { return {std::string(tile_position_name(x))}; }

bool from_arg(const ArgValue& a, TilePosition& x) {
  const auto* text = std::get_if<std::string>(&a.value);
  const auto* found = text ? std::ranges::find(kPositionNames, std::string_view(*text)) : std::end(kPositionNames);
  if (found == std::end(kPositionNames)) return false;
  x = static_cast<TilePosition>(found - std::begin(kPositionNames));
  return true;
}

std::vector<int64_t> tile_candidates(int64_t extent, const Target* target, TilePosition position, int element_bytes) {
  FETTLE_CHECK(extent >= 1 && element_bytes >= 1);
  const int64_t vector_bytes = target ? target->vector_bits / 8 : 64;
  const int64_t registers = target ? target->vector_registers : 32;
  const int64_t l2_bytes = target ? cache_bytes(*target, 1) : usual_cache_bytes(1);
  std::vector<int64_t> sizes;
  switch (position) {
    case TilePosition::kLanes:
      sizes = lane_candidates(extent, std::max<int64_t>(vector_bytes / element_bytes, 1));
      break;
    case TilePosition::kRows:
      sizes = row_candidates(extent, registers);
      break;
    case TilePosition::kDepth:
      sizes = depth_candidates(extent, vector_bytes, l2_bytes);
      break;
    case TilePosition::kOuter:
      sizes = outer_candidates(extent);
      break;
  }
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

}  // namespace fettle
