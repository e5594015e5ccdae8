// How AtomTable::measure goes about it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "cost/atom_table.h"
#include "cost/canonical_atoms.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values, double otherwise) {
  if (values.empty()) return otherwise;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
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

class Meter {
 public:
  Meter(const Target& target, double limit_s) : target_(target), limit_s_(limit_s), start_(Clock::now()) {}

  double spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool has_time() const { return spent() < limit_s_; }
  int lanes() const { return target_.vector_lanes(4); }

  /// Least seconds of one run; nothing where the program cannot be built.
  std::optional<double> time(const Result<Func>& func, double longest_s = 0.012) {
    if (!func) return std::nullopt;
    auto kernel = LocalKernel::build(*func, target_, {.cache = cache_});
    if (!kernel) return std::nullopt;
    TimingOptions options;
    options.batch_s = 1e-4;
    options.min_samples = 30;
    options.max_samples = 60;
    options.target_half_width = 0.005;
    options.max_seconds = longest_s;
    const Timing timing = time_call([&] { return kernel->call(); }, options);
    if (timing.status != 0) return std::nullopt;
    return timing.min_s;
  }

 private:
  const Target& target_;
  const double limit_s_;
  const Clock::time_point start_;
  std::shared_ptr<ObjectCache> cache_ = std::make_shared<ObjectCache>();
};

/// Seconds of one tile's pieces; turned into cycles when the frequency is known.
struct TileTimes {
  int rows, vectors;
  double step[kRowModes] = {0, 0, 0};
  double call = 0, add = 0;
  double vector_from[kSources] = {0, 0, 0};  // a step, its vector operand from there; 0: not measured
};

std::optional<TileTimes> time_tile(Meter& meter, int rows, int vectors, const MachineCosts& costs) {
  TileTimes times{.rows = rows, .vectors = vectors};
  const int64_t lanes = meter.lanes();
  CanonicalAtom atom{.rows = rows, .vectors = vectors};
  // Both operands and the results of one repeat in L1.
  const double panel_bytes_a_step = static_cast<double>(vectors * lanes * 4 + rows * 4);
  const int64_t deep =
      std::clamp<int64_t>(static_cast<int64_t>(0.6 * costs.capacity_bytes[0] / panel_bytes_a_step) / 16 * 16, 32, 192);
  const auto time = [&](RowMode mode, int64_t depth, int64_t phases) {
    atom.mode = mode;
    atom.depth = depth;
    atom.phases = phases;
    atom.panels = 1;
    atom.repeats = 16;
    const auto seconds = meter.time(canonical_atom(atom, lanes));
    return seconds ? std::optional<double>(*seconds / static_cast<double>(atom.repeats)) : std::nullopt;
  };
  const auto shallow = time(RowMode::kInPlace, 32, 1), in_place = time(RowMode::kInPlace, deep, 1);
  if (!shallow || !in_place) return std::nullopt;
  const double steps = static_cast<double>(deep - 32);
  times.step[static_cast<int>(RowMode::kInPlace)] = (*in_place - *shallow) / steps;
  if (deep == 32 || times.step[static_cast<int>(RowMode::kInPlace)] <= 0) return std::nullopt;
  times.call = std::max(0.0, *in_place - times.step[static_cast<int>(RowMode::kInPlace)] * static_cast<double>(deep));
  // The other modes differ by their steps alone.
  const auto packed = time(RowMode::kPacked, deep, 1);
  times.step[0] =
      packed ? std::max(0.1 * times.step[1], (*packed - times.call) / static_cast<double>(deep)) : times.step[1];
  const auto added = time(RowMode::kInPlace, deep, 4);
  if (added) times.add = std::max(0.0, (*added - *in_place) / 3 - times.call);

  // One panel after the other, all together in L2, L3.
  const double share[kSources] = {0.5, 0.3, 0};
  for (int level = 0; level + 1 < kSources; ++level) {
    const double inner = costs.capacity_bytes[static_cast<size_t>(level)];
    const double outer = costs.capacity_bytes[static_cast<size_t>(level) + 1];
    const double bytes = std::min({share[level] * outer, 4 * inner, 6e6});
    if (bytes < 1.5 * inner) continue;
    atom.mode = RowMode::kInPlace;
    atom.phases = 1;
    atom.repeats = 1;
    atom.depth = 256;
    atom.panels =
        std::max<int64_t>(1, static_cast<int64_t>(bytes / static_cast<double>(atom.depth * vectors * lanes * 4)));
    const auto seconds = meter.time(canonical_atom(atom, lanes));
    if (seconds) times.vector_from[level] = (*seconds / atom.calls() - times.call) / static_cast<double>(atom.depth);
  }

  // Rows in conflict, all else as when the panel comes from L2.
  atom.mode = RowMode::kConflict;
  atom.panels = 1;
  atom.depth = 512;
  atom.repeats = 8;
  atom.conflict_bytes = static_cast<int64_t>(costs.l1_way_bytes);
  const auto conflict = meter.time(canonical_atom(atom, lanes));
  const double base = times.vector_from[0] > 0 ? times.vector_from[0] : times.step[1];
  times.step[2] = times.step[1];
  if (conflict)
    times.step[2] += std::max(0.0, (*conflict / atom.calls() - times.call) / static_cast<double>(atom.depth) - base);
  return times;
}

/// Seconds a line that an atom adds to, the results together in L2, L3, memory; 0: not measured.
double time_edge_line(Meter& meter, size_t level, const MachineCosts& costs) {
  const double inner = costs.capacity_bytes[level],
               outer = level + 1 < kSources ? costs.capacity_bytes[level + 1] : 8 * inner;
  CanonicalAtom atom{.rows = 8, .vectors = 2, .depth = 128, .panels = 16};
  atom.far_rows = true;
  const double tile_bytes = 8.0 * 2 * meter.lanes() * 4;
  const double bytes = std::min(std::clamp(0.4 * outer, inner, 4 * inner), 64e6);
  atom.repeats = std::max<int64_t>(1, static_cast<int64_t>(bytes / tile_bytes / static_cast<double>(atom.panels)));
  // A difference of two times: both must be good.
  const auto once = meter.time(canonical_atom(atom, meter.lanes()), 0.05);
  atom.phases = 2;
  const auto twice = meter.time(canonical_atom(atom, meter.lanes()), 0.05);
  if (!once || !twice) return 0;
  return std::max(0.0, (*twice - *once) / static_cast<double>(atom.repeats * atom.panels)) / (tile_bytes / 64);
}

}  // namespace

Result<AtomTable> AtomTable::measure(const Target& target, double limit_s) {
  Meter meter(target, limit_s);
  MachineCosts costs = describe_costs(target);
  std::vector<TileTimes> times;
  for (const auto& [rows, vectors] : canonical_tiles(target.vector_registers)) {
    if (!meter.has_time() && !times.empty()) break;
    if (const auto tile = time_tile(meter, rows, vectors, costs)) times.push_back(*tile);
  }
  if (times.empty()) return fail(ErrorCode::E407, "no atom could be built and timed on this machine");

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
  costs.edge_share = std::clamp(median(edges, costs.edge_share), 0.1, 2.0);

  // Copies: where both buffers come from L2, L3, memory.
  std::array<double, kSources> copied{};
  for (size_t level = 0; level < kSources; ++level) {
    const double inner = costs.capacity_bytes[level];
    const double outer = level + 1 < kSources ? costs.capacity_bytes[level + 1] : 8 * inner;
    const double bytes = std::min(std::clamp(0.25 * outer, 0.8 * inner, 2 * inner), 64e6);  // of each of the two
    const int64_t elems = std::max<int64_t>(1, static_cast<int64_t>(bytes / 4) / (4 * lanes)) * 4 * lanes;
    if (!meter.has_time()) break;
    const auto seconds = meter.time(canonical_copy(elems, lanes));
    if (seconds) copied[level] = *seconds * costs.hz / (static_cast<double>(elems) * 4 / 64);
  }
  for (size_t level = 0; level < kSources && meter.has_time(); ++level) {
    if (const double seconds = time_edge_line(meter, level, costs); seconds > 0)
      costs.edge_line_cycles[level] = seconds * costs.hz;
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

  AtomTable table(costs, std::move(tiles), target.fingerprint().hex());
  table.measure_seconds_ = meter.spent();
  return table;
}

}  // namespace fettle
