#include "driver/least_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ir/expr.h"
#include "ir/visit.h"
#include "tune/bound.h"
#include "tune/space/algorithm.h"

namespace fettle {
namespace {

/// How many elements of each buffer are read at most: one for each load and point of its block. A table of which a few
/// rows are looked up counts with these.
std::unordered_map<const BufferNode*, double> elements_read(const Func& func) {
  std::unordered_map<const BufferNode*, double> read;
  walk(func->body, [&](const Stmt& s) {
    const auto* block = s.as<BlockNode>();
    if (!block || block->iters.empty()) return true;
    double points = 1;
    for (const auto& iter : block->iters)
      if (const auto* extent = iter.extent.as<IntImmNode>()) points *= static_cast<double>(extent->value);
    walk(
        block->body, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          if (const auto* source = e.as<LoadNode>()) read[source->buffer.get()] += points;
          return true;
        });
    return true;
  });
  return read;
}

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
  if (const double flops = of(peaks.fp32, threads); flops > 0 && work.flops > 0) least = {work.flops / flops, "fp32"};
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

NecessaryWork necessary_work(const Func& workload) {
  constexpr double kAnyError = std::numeric_limits<double>::infinity();
  NecessaryWork work{.flops = needed_flops(workload) * least_share_of_products(workload, kAnyError)};
  const auto read = elements_read(workload);
  for (const Param& param : workload->params) {
    double elems = 1;
    for (const Expr& extent : param.buffer->shape)
      if (const auto* number = extent.as<IntImmNode>()) elems *= static_cast<double>(number->value);
    const auto found = read.find(param.buffer.get());
    if (found != read.end()) elems = std::min(elems, found->second);
    const double bytes = elems * static_cast<double>(param.buffer->dtype.element_bytes());
    (param.kind == ParamKind::kOutput ? work.written_bytes : work.read_bytes) += bytes;
  }
  return work;
}

LeastTime least_time(const NecessaryWork& work, const Target& target, const MachinePeaks& peaks, int threads) {
  const LeastTime one = least_time_on(work, target, peaks, 1);
  if (threads == 1) return one;
  LeastTime all = least_time_on(work, target, peaks, threads);
  all.seconds += peaks.fork_join_s;
  return all.seconds < one.seconds ? all : one;
}

}  // namespace fettle
