#include "tune/parts/gpu_warp_group_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"

namespace fettle {
namespace {

constexpr WarpGroupTiling kTilings[] = {
    {128, 256, 2, 4},
    {256, 128, 2, 4},
    {128, 192, 2, 5},
    {192, 128, 3, 5},
    {128, 128, 2, 6},
    {64, 256, 1, 5},
    {64, 128, 1, 8},
    {64, 64, 1, 8},
    {64, 64, 1, 6, 1, false, 2},
    {128, 256, 2, 4, 2},
    {256, 128, 2, 4, 2},
    {128, 192, 2, 5, 2},
    {192, 128, 3, 5, 2},
    {128, 128, 2, 6, 2},
    {64, 256, 1, 5, 2},
    {128, 256, 2, 4, 2, true},
    {256, 128, 2, 4, 2, true},
    {128, 192, 2, 5, 2, true},
    {128, 128, 2, 6, 2, true},
    {64, 128, 1, 8, 2, true},
};

// Of an H100: cycles in a second; products in a cycle of a multiprocessor, and which share of them is reached; bytes in
// a cycle from L2 to one multiprocessor; which share of the memory's rate is reached; cycles of the end of a tile, and
// of the meetings of a cluster.
constexpr double kFrequency = 1.755e9, kProducts = 2048, kReached = 0.93, kNearBytes = 55, kFarReached = 0.92,
                 kEnd = 1500, kMeet = 2000, kMeetOfStep = 60;
constexpr int64_t kLineBytes = 128, kFactorBytes = 2;

int64_t multiprocessors(const Target& target) { return target.gpu ? target.gpu->multiprocessors : 1; }

double far_cycles(const ProductShape& s, const Target& target) {
  const double rate = target.gpu ? target.gpu->memory_gb_per_s * 1e9 : 1e12;
  const int64_t elements = s.rows * s.terms + s.columns * s.terms + s.rows * s.columns;
  return static_cast<double>(s.batch * elements * kFactorBytes) / (kFarReached * rate) * kFrequency;
}

// Rows that do not begin at lines of the cache take twice as many of them.
double lines_of(int64_t elements_of_row) { return elements_of_row * kFactorBytes % kLineBytes == 0 ? 1 : 2; }

}  // namespace

std::span<const WarpGroupTiling> warp_group_tilings() { return kTilings; }

std::string describe(const WarpGroupTiling& t) {
  std::string text = fmt::format("{}x{}, {} stages", t.rows, t.columns, t.stages);
  if (t.cluster > 1) text += fmt::format(", cluster of {}{}", t.cluster, t.along_columns ? " side by side" : "");
  if (t.blocks > 1) text += fmt::format(", {} blocks", t.blocks);
  return text;
}

double predicted_seconds(const WarpGroupTiling& t, const ProductShape& s, const Target& target) {
  const int64_t all = multiprocessors(target) * t.blocks / t.cluster * t.cluster;
  const int64_t tiles =
      s.batch * ceil_div(s.rows, t.rows_of_cluster()) * ceil_div(s.columns, t.columns_of_cluster()) * t.cluster;
  const auto steps = static_cast<double>(ceil_div(s.terms, WarpGroupTiling::kTermsOfStep));
  // Two warp groups hide the other's beginnings and ends; large tiles take their factors to fewer products.
  const bool is_large = t.rows * t.columns > 128 * 192;
  const double products = static_cast<double>(t.rows * t.columns * WarpGroupTiling::kTermsOfStep) /
                          (kProducts * kReached * (is_large ? 1 : 0.96)) * static_cast<double>(t.blocks);
  const auto left = static_cast<double>(t.rows / (t.along_columns ? t.cluster : 1));
  const auto right = static_cast<double>(t.columns / (t.along_columns ? 1 : t.cluster));
  const double bytes = static_cast<double>(WarpGroupTiling::kTermsOfStep * kFactorBytes * t.blocks) *
                       (left * lines_of(s.terms) + right * lines_of(s.right_along_terms ? s.terms : s.columns));
  const double turns = static_cast<double>(ceil_div(tiles, all));
  double near = turns * (steps * std::max(products, bytes / kNearBytes) + kEnd);
  // Blocks of a cluster wait for each other, when they begin and at each step.
  if (t.cluster > 1) near += kMeet + turns * steps * kMeetOfStep;
  // What a multiprocessor does for itself is not all hidden where memory is what they wait for.
  return (std::max(near, far_cycles(s, target)) + 0.1 * near) / kFrequency;
}

std::vector<size_t> fastest_tilings(const ProductShape& shape, const Target& target) {
  // No block of a cluster, and no warp group, lies outside of the matrix altogether.
  const auto fits = [&](const WarpGroupTiling& t) {
    return shape.rows > t.rows_of_cluster() - t.rows / t.groups && shape.columns > t.columns_of_cluster() - t.columns;
  };
  std::vector<size_t> numbers;
  for (size_t n = 0; n < std::size(kTilings); ++n)
    if (fits(kTilings[n])) numbers.push_back(n);
  std::ranges::stable_sort(numbers, {}, [&](size_t n) { return predicted_seconds(kTilings[n], shape, target); });
  return numbers;
}

}  // namespace fettle
