#include "report/least_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace fettle {
namespace {

// Of parts of f32 operands, which are bf16, for one of f32 (tune/parts/split_product.h).
constexpr double kSplitProducts = 6;

double of(const PeakRate& rate, int threads) { return threads > 1 ? rate.all_threads : rate.one_thread; }

/// How much of `bytes` is in each level of `peaks.memory`, when the nearest are full.
std::vector<double> levels_of(double bytes, const Target& target, const MachinePeaks& peaks, int threads) {
  std::vector<double> held(peaks.memory.size(), 0);
  double inside = 0;  // in the levels before
  for (size_t i = 0; i < peaks.memory.size(); ++i) {
    double capacity = std::numeric_limits<double>::infinity();
    const auto cache = static_cast<size_t>(peaks.memory[i].level - 1);
    if (i + 1 < peaks.memory.size() && peaks.memory[i].level > 0 && cache < target.caches.size()) {
      const CacheLevel& level = target.caches[cache];
      capacity = static_cast<double>(level.size_bytes) * std::max(1, threads / std::max(1, level.shared_by_threads));
    }
    const double filled = std::min(bytes, capacity);
    held[i] = std::max(0.0, filled - inside);
    inside = std::max(inside, filled);
  }
  return held;
}

LeastTime least_time_on(const NecessaryWork& work, const Target& target, const MachinePeaks& peaks, int threads) {
  LeastTime least;
  const double fp32 = of(peaks.fp32, threads);
  const double split = target.has_feature("amx-bf16") ? of(peaks.bf16, threads) / kSplitProducts : 0;
  const bool is_split = split > fp32;
  if (fp32 > 0 && work.flops > 0) least = {work.flops / std::max(fp32, split), is_split ? "split products" : "fp32"};
  // What the tile unit does the vector units need not do.
  const double elsewhere = is_split ? work.flops / 2 : 0;
  // A multiplication takes the units as long as a multiply-add.
  if (const double seconds = 2 * (work.products - elsewhere) / fp32; fp32 > 0 && seconds > least.seconds)
    least = {seconds, "products"};
  const double rate = of(peaks.operations, threads);
  if (const double seconds = (work.operations - elsewhere) / rate; rate > 0 && seconds > least.seconds)
    least = {seconds, "operations"};
  const double bytes = work.read_bytes + work.written_bytes;
  if (bytes <= 0 || peaks.memory.empty()) return least;
  const double copied_bytes = 2 * std::min(work.read_bytes, work.written_bytes);
  const std::vector<double> held = levels_of(bytes, target, peaks, threads);
  double read_s = 0, copied_s = 0;
  size_t outermost = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    const MemoryRates& level = peaks.memory[i];
    const double share = held[i] / bytes;
    if (share <= 0 || of(level.read, threads) <= 0 || of(level.copied, threads) <= 0) continue;
    read_s += share * work.read_bytes / of(level.read, threads);
    copied_s += share * copied_bytes / of(level.copied, threads);
    outermost = i;
  }
  if (const double seconds = std::max(read_s, copied_s); seconds > least.seconds) {
    const int level = peaks.memory[outermost].level;
    least = {seconds, level == 0 ? "memory" : fmt::format("L{}", level)};
  }
  return least;
}

}  // namespace

LeastTime least_time(const NecessaryWork& work, const Target& target, const MachinePeaks& peaks, int threads) {
  const LeastTime one = least_time_on(work, target, peaks, 1);
  if (threads == 1) return one;
  LeastTime all = least_time_on(work, target, peaks, threads);
  all.seconds += peaks.fork_join_s;
  return all.seconds < one.seconds ? all : one;
}

}  // namespace fettle
