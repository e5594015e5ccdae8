// How MicroKernelTable::measure goes about it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "cost/predict/canonical_micro_kernels.h"
#include "cost/predict/micro_kernel_table.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values, double otherwise) {
  return values.empty() ? otherwise : median_interval(values).median;
}

/// Rows x vectors that fill the registers in the ways worth having.
std::vector<std::pair<int, int>> canonical_tiles(int registers) {
  std::vector<std::pair<int, int>> tiles;
  const std::pair<int, int> known[] = {{14, 2}, {12, 2}, {8, 3}, {7, 3}, {6, 4},  {8, 2}, {4, 4},
                                       {14, 1}, {28, 1}, {5, 2}, {3, 3}, {6, 2},  {4, 3}, {5, 4},
                                       {4, 2},  {10, 1}, {2, 4}, {7, 2}, {10, 2}, {4, 1}};
  for (const auto& [rows, vectors] : known)
    if (rows * vectors + vectors + 1 <= registers) tiles.emplace_back(rows, vectors);
  return tiles;
}

/// Times programs on a machine that others use, too: short looks at all of them in turn, again and again, of which the
/// quickest counts. A neighbour that shares the core slows it for seconds, with quiet moments in between.
class Meter {
 public:
  Meter(const Target& target, double limit_s) : target_(target), limit_s_(limit_s), start_(Clock::now()) {}

  double spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// For more programs.
  bool has_time() const { return spent() < kShareForFirst * limit_s_; }
  int lanes() const { return target_.vector_lanes(4); }

  /// Builds the program and takes a first look. Which one it is among those that `look_again` takes its looks at;
  /// nothing where it cannot be built.
  std::optional<size_t> add(const Result<Func>& func) {
    std::optional<Probe> probe = build(func);
    if (!probe) return std::nullopt;
    probes_.push_back(std::move(*probe));
    (void)look(probes_.back(), kLook_s);
    return probes_.size() - 1;
  }

  /// The only look at a program that takes too much memory to be kept.
  std::optional<size_t> add_once(const Result<Func>& func, double longest_s) {
    std::optional<Probe> probe = build(func);
    if (!probe) return std::nullopt;
    (void)look(*probe, longest_s);
    probe->kernel.reset();
    probes_.push_back(std::move(*probe));
    return probes_.size() - 1;
  }

  /// Until the last rounds showed nothing new, or the time is up.
  void look_again() {
    for (int round = 0, quiet = 0; round < kMostRounds && quiet < kQuietRounds; ++round) {
      bool news = false;
      for (Probe& probe : probes_) {
        if (!probe.kernel) continue;
        if (spent() >= kShareOfAll * limit_s_) return;
        const double before = probe.least_s;
        news |= look(probe, kLook_s) && probe.least_s < (1 - kNews) * before;
      }
      quiet = news ? 0 : quiet + 1;
    }
  }

  /// Least seconds of one run.
  std::optional<double> least_s(std::optional<size_t> probe) const {
    if (!probe || !std::isfinite(probes_[*probe].least_s)) return std::nullopt;
    return probes_[*probe].least_s;
  }

 private:
  static constexpr double kShareForFirst = 0.7, kShareOfAll = 0.9, kLook_s = 0.006, kNews = 0.01;
  static constexpr int kQuietRounds = 3, kMostRounds = 16;

  struct Probe {
    std::optional<LocalKernel> kernel;  // nothing: it was looked at once
    double least_s;
  };

  std::optional<Probe> build(const Result<Func>& func) const {
    if (!func) return std::nullopt;
    auto kernel = LocalKernel::build(*func, target_, {.cache = cache_});
    if (!kernel) return std::nullopt;
    return Probe{std::move(*kernel), INFINITY};
  }

  static bool look(Probe& probe, double longest_s) {
    TimingOptions options;
    options.batch_s = 5e-5;
    options.min_samples = 30;
    options.max_samples = 100;
    options.target_half_width = 0.005;
    options.max_seconds = longest_s;
    const Timing timing = time_call([&] { return probe.kernel->call(); }, options);
    if (timing.status != 0) return false;
    probe.least_s = std::min(probe.least_s, timing.min_s);
    return true;
  }

  const Target& target_;
  const double limit_s_;
  const Clock::time_point start_;
  std::shared_ptr<ObjectCache> cache_ = std::make_shared<ObjectCache>();
  std::vector<Probe> probes_;
};

/// The programs that tell what one tile costs.
struct TileProbes {
  int rows, vectors;
  int64_t deep = 0;  // steps of all but `shallow`
  std::optional<size_t> shallow, in_place, packed, added, conflict, from[kSources];
  double conflict_steps = 0, conflict_calls = 0, from_steps = 0, from_calls[kSources] = {0, 0, 0};
};

constexpr int64_t kShallow = 32, kRepeats = 16, kAdded = 4;

std::optional<TileProbes> probe_tile(Meter& meter, int rows, int vectors, const MachineCosts& costs) {
  TileProbes probes{.rows = rows, .vectors = vectors};
  const int64_t lanes = meter.lanes();
  CanonicalMicroKernel micro_kernel{.rows = rows, .vectors = vectors};
  // Both operands and the results of one repeat in L1.
  const double panel_bytes_a_step = static_cast<double>(4 * (vectors * lanes + rows));
  const int64_t deep = std::clamp<int64_t>(
      static_cast<int64_t>(0.6 * costs.capacity_bytes[0] / panel_bytes_a_step) / 16 * 16, kShallow, 192);
  if (deep == kShallow) return std::nullopt;
  probes.deep = deep;
  const auto add = [&](RowMode mode, int64_t depth, int64_t phases) {
    micro_kernel.mode = mode;
    micro_kernel.depth = depth;
    micro_kernel.phases = phases;
    micro_kernel.panels = 1;
    micro_kernel.repeats = kRepeats;
    return meter.add(canonical_micro_kernel(micro_kernel, lanes));
  };
  probes.shallow = add(RowMode::kInPlace, kShallow, 1);
  probes.in_place = add(RowMode::kInPlace, deep, 1);
  if (!probes.shallow || !probes.in_place) return std::nullopt;
  probes.packed = add(RowMode::kPacked, deep, 1);
  probes.added = add(RowMode::kInPlace, deep, kAdded);

  // One panel after the other, all together in L2, L3.
  const double share[kSources] = {0.5, 0.3, 0};
  for (int level = 0; level + 1 < kSources; ++level) {
    const double inner = costs.capacity_bytes[static_cast<size_t>(level)];
    const double outer = costs.capacity_bytes[static_cast<size_t>(level) + 1];
    const double bytes = std::min({share[level] * outer, 4 * inner, 6e6});
    if (bytes < 1.5 * inner) continue;
    micro_kernel.mode = RowMode::kInPlace;
    micro_kernel.phases = 1;
    micro_kernel.repeats = 1;
    micro_kernel.depth = 256;
    micro_kernel.panels = std::max<int64_t>(
        1, static_cast<int64_t>(bytes / static_cast<double>(micro_kernel.depth * vectors * lanes * 4)));
    probes.from[level] = meter.add(canonical_micro_kernel(micro_kernel, lanes));
    probes.from_calls[level] = micro_kernel.calls();
    probes.from_steps = static_cast<double>(micro_kernel.depth);
  }

  // Rows in conflict, all else as when the panel comes from L2.
  micro_kernel.mode = RowMode::kConflict;
  micro_kernel.panels = 1;
  micro_kernel.depth = 512;
  micro_kernel.repeats = 8;
  micro_kernel.conflict_bytes = static_cast<int64_t>(costs.l1_way_bytes);
  probes.conflict = meter.add(canonical_micro_kernel(micro_kernel, lanes));
  probes.conflict_calls = micro_kernel.calls();
  probes.conflict_steps = static_cast<double>(micro_kernel.depth);
  return probes;
}

/// Seconds of one tile's pieces; turned into cycles when the frequency is known.
struct TileTimes {
  int rows, vectors;
  double step[kRowModes] = {0, 0, 0};
  double call = 0, add = 0;
  double vector_from[kSources] = {0, 0, 0};  // a step, its vector operand from there; 0: not measured
};

std::optional<TileTimes> times_of(const TileProbes& probes, const Meter& meter) {
  TileTimes times{.rows = probes.rows, .vectors = probes.vectors};
  const auto repeat_s = [&](std::optional<size_t> probe) {
    const auto seconds = meter.least_s(probe);
    return seconds ? std::optional(*seconds / static_cast<double>(kRepeats)) : std::nullopt;
  };
  const auto deep = static_cast<double>(probes.deep);
  const auto shallow = repeat_s(probes.shallow), in_place = repeat_s(probes.in_place);
  if (!shallow || !in_place || *in_place <= *shallow) return std::nullopt;
  const double step = (*in_place - *shallow) / (deep - static_cast<double>(kShallow));
  times.step[static_cast<int>(RowMode::kInPlace)] = step;
  times.call = std::max(0.0, *in_place - step * deep);
  // The other modes differ by their steps alone.
  const auto packed = repeat_s(probes.packed), added = repeat_s(probes.added);
  times.step[static_cast<int>(RowMode::kPacked)] = packed ? std::max(0.1 * step, (*packed - times.call) / deep) : step;
  if (added) times.add = std::max(0.0, (*added - *in_place) / static_cast<double>(kAdded - 1) - times.call);
  for (int level = 0; level + 1 < kSources; ++level)
    if (const auto seconds = meter.least_s(probes.from[level]))
      times.vector_from[level] = (*seconds / probes.from_calls[level] - times.call) / probes.from_steps;
  const double base = times.vector_from[0] > 0 ? times.vector_from[0] : step;
  const auto conflict = meter.least_s(probes.conflict);
  times.step[static_cast<int>(RowMode::kConflict)] =
      step +
      (conflict ? std::max(0.0, (*conflict / probes.conflict_calls - times.call) / probes.conflict_steps - base) : 0);
  return times;
}

/// A micro-kernel that adds to lines, the results together in L2, L3, memory: once and twice over all of them.
struct EdgeProbe {
  CanonicalMicroKernel once, twice;
  double lines = 0;
};

EdgeProbe probe_edge(size_t level, const MachineCosts& costs, int lanes) {
  const double inner = costs.capacity_bytes[level],
               outer = level + 1 < kSources ? costs.capacity_bytes[level + 1] : 8 * inner;
  EdgeProbe probe{.once = {.rows = 8, .vectors = 2, .depth = 128, .panels = 16}};
  probe.once.far_rows = true;
  const double tile_bytes = 8.0 * 2 * lanes * 4;
  const double bytes = std::min(std::clamp(0.4 * outer, inner, 4 * inner), 64e6);
  const auto panels = static_cast<double>(probe.once.panels);
  probe.once.repeats = std::max<int64_t>(1, static_cast<int64_t>(bytes / tile_bytes / panels));
  probe.twice = probe.once;
  probe.twice.phases = 2;
  probe.lines = static_cast<double>(probe.once.repeats) * panels * tile_bytes / 64;
  return probe;
}

}  // namespace

Result<MicroKernelTable> MicroKernelTable::measure(const Target& target, double limit_s) {
  Meter meter(target, limit_s);
  MachineCosts costs = describe_costs(target);
  std::vector<TileProbes> tile_probes;
  for (const auto& [rows, vectors] : canonical_tiles(target.vector_registers)) {
    if (!meter.has_time() && !tile_probes.empty()) break;
    if (const auto tile = probe_tile(meter, rows, vectors, costs)) tile_probes.push_back(*tile);
  }

  // Copies and edges, where what they move comes from L2, L3, memory. What takes much memory is looked at once.
  struct Moves {
    double lines = 0;  // of a copy
    std::optional<size_t> copy, once, twice;
    EdgeProbe edge;
  };
  std::array<Moves, kSources> moves;
  for (size_t level = 0; level < kSources && meter.has_time(); ++level) {
    Moves& m = moves[level];
    const double inner = costs.capacity_bytes[level];
    const double outer = level + 1 < kSources ? costs.capacity_bytes[level + 1] : 8 * inner;
    const double bytes = std::min(std::clamp(0.25 * outer, 0.8 * inner, 2 * inner), 64e6);  // of each of the two
    const int64_t elems =
        std::max<int64_t>(1, static_cast<int64_t>(bytes / 4) / (int64_t{4} * meter.lanes())) * 4 * meter.lanes();
    m.lines = static_cast<double>(elems) * 4 / 64;
    m.edge = probe_edge(level, costs, meter.lanes());
    const auto copy = canonical_copy(elems, meter.lanes()), once = canonical_micro_kernel(m.edge.once, meter.lanes()),
               twice = canonical_micro_kernel(m.edge.twice, meter.lanes());
    if (level + 1 < kSources) {
      m.copy = meter.add(copy);
      m.once = meter.add(once);
      m.twice = meter.add(twice);
    } else {
      m.copy = meter.add_once(copy, 0.012);
      // A difference of two times: both must be good.
      m.once = meter.add_once(once, 0.05);
      m.twice = meter.add_once(twice, 0.05);
    }
  }
  meter.look_again();
  std::vector<TileTimes> times;
  for (const TileProbes& probes : tile_probes)
    if (const auto tile = times_of(probes, meter)) times.push_back(*tile);
  if (times.empty()) return fail(ErrorCode::E407, "no micro-kernel could be built and timed on this machine");

  // The best tile runs at the machine's peak: that tells how long a cycle is.
  const int lanes = meter.lanes();
  double cycle_s = INFINITY;
  for (const TileTimes& tile : times) {
    const double least = tile.rows * tile.vectors / costs.fma_per_cycle;
    const double best = *std::min_element(tile.step, tile.step + kRowModes);
    cycle_s = std::min(cycle_s, best / least);
  }
  costs.hz = 1 / cycle_s;

  std::vector<TileCosts> tiles;
  std::vector<double> edges, gaps[kSources], delays[kSources];
  for (const TileTimes& tile : times) {
    TileCosts result{.rows = tile.rows, .vectors = tile.vectors};
    for (size_t mode = 0; mode < kRowModes; ++mode) result.step_cycles[mode] = tile.step[mode] * costs.hz;
    result.call_cycles = tile.call * costs.hz;
    result.add_cycles = tile.add * costs.hz;
    const double lines = std::max(1.0, tile.vectors * lanes * 4 / 64.0);
    for (size_t level = 0; level < kSources; ++level) {
      if (tile.vector_from[level] <= 0) continue;
      result.vector_step[level] = tile.vector_from[level] * costs.hz;
      // A tile that waits for most of its lines tells the bandwidth; one that does not, the delay.
      if (result.vector_step[level] > 1.2 * result.step_cycles[1])
        gaps[level].push_back(result.vector_step[level] / lines);
      else
        delays[level].push_back(std::max(0.0, result.vector_step[level] - result.step_cycles[1]) / lines);
    }
    Work edge;
    edge.stores = tile.rows * tile.vectors;
    edges.push_back(result.call_cycles / (work_cycles(edge, costs, false) + costs.loop_cycles + costs.call_cycles));
    tiles.push_back(result);
  }
  costs.edge_share = std::clamp(median(edges, costs.edge_share), 0.15, 0.6);

  std::array<double, kSources> copied{};  // cycles a line
  for (size_t level = 0; level < kSources; ++level) {
    const Moves& m = moves[level];
    if (const auto copy = meter.least_s(m.copy)) copied[level] = *copy * costs.hz / m.lines;
    const auto once = meter.least_s(m.once), twice = meter.least_s(m.twice);
    if (once && twice && *twice > *once) costs.edge_line_cycles[level] = (*twice - *once) / m.edge.lines * costs.hz;
  }
  for (size_t level = 0; level < kSources; ++level) {
    // Unknown: as far from a copy as on the level before.
    const double guess = copied[level] > 0 ? copied[level] / (1 + costs.write_weight[level]) : costs.line_cycles[level];
    costs.line_cycles[level] = median(gaps[level], guess);
    if (copied[level] > 0)
      costs.write_weight[level] = std::clamp(copied[level] / costs.line_cycles[level] - 1, 0.5, 4.0);
    costs.latency_cycles[level] =
        std::min(median(delays[level], costs.latency_cycles[level]), 0.5 * costs.line_cycles[level]);
  }

  MicroKernelTable table(costs, std::move(tiles), target.fingerprint().hex());
  table.measure_seconds_ = meter.spent();
  return table;
}

}  // namespace fettle
