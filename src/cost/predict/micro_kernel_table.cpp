#include "cost/predict/micro_kernel_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/private_folder.h"
#include "cost/learned/checked_file.h"

namespace fettle {

// Rows of the tile: steps that share broadcasts, as the taps of a convolution do, load fewer than there are.
static double rows_of(const Work& work) {
  const double vectors = std::max(1, work.vector_loads());
  return std::max(work.broadcasts, std::min(work.fma, work.accumulators) / vectors);
}

const TileCosts* MicroKernelTable::nearest(const Work& work) const {
  return nearest(rows_of(work), work.vector_loads());
}

const TileCosts* MicroKernelTable::nearest(double rows_wanted, double vectors_wanted) const {
  const TileCosts* best = nullptr;
  double best_distance = 0;
  for (const TileCosts& tile : tiles_) {
    const double rows = std::log2((rows_wanted + 1) / (tile.rows + 1.0));
    const double vectors = std::log2((vectors_wanted + 1) / (tile.vectors + 1.0));
    const double distance = rows * rows + 2 * vectors * vectors;
    if (!best || distance < best_distance) {
      best = &tile;
      best_distance = distance;
    }
  }
  return best;
}

double MicroKernelTable::step_cycles(const Work& work, RowMode mode, double rows_a_set, double exposed) const {
  const double analytic = work_cycles(work, costs_, true, exposed);
  const TileCosts* tile = nearest(work);
  if (!tile) return analytic;
  Work like;
  like.fma = like.accumulators = like.live_registers = tile->rows * tile->vectors;
  like.broadcasts = tile->rows;
  like.loads = tile->rows + tile->vectors;
  const RowMode plain = mode == RowMode::kConflict ? RowMode::kInPlace : mode;
  const double cycles = analytic * tile->step_cycles[static_cast<size_t>(plain)] / work_cycles(like, costs_, true);
  if (mode != RowMode::kConflict || rows_a_set < 1) return cycles;
  // Each set is in the state of a tile with as many rows as share it.
  const TileCosts* alike = nearest(rows_a_set, work.vector_loads());
  const double extra = std::max(0.0, alike->step_cycles[static_cast<size_t>(RowMode::kConflict)] -
                                         alike->step_cycles[static_cast<size_t>(RowMode::kInPlace)]);
  return cycles + extra * work.broadcasts / alike->rows;
}

namespace {

constexpr double kFormat = 2;  // raised with every change of what is kept

// What is measured of a machine, in the order in which it is kept.
template <class Costs, class Fn>
void for_each_number(Costs& costs, const Fn& fn) {
  for (auto* value :
       {&costs.hz, &costs.fma_per_cycle, &costs.fma_latency, &costs.loads_per_cycle, &costs.stores_per_cycle,
        &costs.issue_per_cycle, &costs.registers, &costs.call_cycles, &costs.loop_cycles, &costs.edge_share,
        &costs.outer_loop_cycles, &costs.fork_join_seconds, &costs.l1_ways, &costs.l1_way_bytes})
    fn(*value);
  for (auto* values :
       {&costs.line_cycles, &costs.latency_cycles, &costs.edge_line_cycles, &costs.write_weight, &costs.capacity_bytes})
    for (auto& value : *values) fn(value);
}

template <class Tile, class Fn>
void for_each_tile_number(Tile& tile, const Fn& fn) {
  for (auto& value : tile.step_cycles) fn(value);
  for (auto& value : tile.vector_step) fn(value);
  fn(tile.call_cycles);
  fn(tile.add_cycles);
}

std::string title(const std::string& machine) { return "fettle micro-kernel table of " + machine; }

}  // namespace

std::vector<double> MicroKernelTable::to_numbers() const {
  std::vector<double> numbers = {kFormat, measure_seconds_, static_cast<double>(tiles_.size())};
  for_each_number(costs_, [&](const double& value) { numbers.push_back(value); });
  for (const TileCosts& tile : tiles_) {
    numbers.push_back(tile.rows);
    numbers.push_back(tile.vectors);
    for_each_tile_number(tile, [&](const double& value) { numbers.push_back(value); });
  }
  return numbers;
}

Result<MicroKernelTable> MicroKernelTable::from_numbers(const std::vector<double>& numbers) {
  MicroKernelTable table;
  size_t at = 0;
  bool sane = true;
  const auto next = [&] {
    if (at >= numbers.size() || !std::isfinite(numbers[at]) || numbers[at] < 0) {
      sane = false;
      return 0.0;
    }
    return numbers[at++];
  };
  sane &= next() == kFormat;
  table.measure_seconds_ = next();
  const double n_tiles = next();
  sane &= n_tiles <= 1000;
  for_each_number(table.costs_, [&](double& value) { value = next(); });
  for (double i = 0; sane && i < n_tiles; ++i) {
    TileCosts tile;
    const double rows = next(), vectors = next();
    sane &= rows >= 1 && rows <= 1000 && vectors >= 1 && vectors <= 1000;
    if (!sane) break;
    tile.rows = static_cast<int>(rows);
    tile.vectors = static_cast<int>(vectors);
    for_each_tile_number(tile, [&](double& value) { value = next(); });
    table.tiles_.push_back(tile);
  }
  sane &= at == numbers.size() && table.costs_.hz > 0 && table.costs_.fma_per_cycle > 0 &&
          table.costs_.loads_per_cycle > 0 && table.costs_.stores_per_cycle > 0 && table.costs_.issue_per_cycle > 0;
  for (const double bytes : table.costs_.capacity_bytes) sane &= bytes > 0;
  if (!sane) return fail(ErrorCode::E503, "the micro-kernel table's numbers make no sense");
  return table;
}

Result<> MicroKernelTable::save(const std::string& path) const {
  return write_checked(path, title(machine_), to_numbers());
}

Result<MicroKernelTable> MicroKernelTable::load(const std::string& path, const Target& target) {
  const std::string machine = target.fingerprint().hex();
  FETTLE_TRY(const std::vector<double> numbers, read_checked(path, title(machine)));
  FETTLE_TRY(MicroKernelTable table, from_numbers(numbers));
  table.machine_ = machine;
  return table;
}

Result<MicroKernelTable> MicroKernelTable::load_or_measure(const Target& target, const std::string& path,
                                                           double limit_s) {
  if (path.empty()) return measure(target, limit_s);
  if (auto known = load(path, target)) return known;
  FETTLE_TRY(MicroKernelTable table, measure(target, limit_s));
  (void)make_private_folder(std::filesystem::path(path).parent_path());  // of the cache, where compiled models lie, too
  (void)table.save(path);
  return table;
}

}  // namespace fettle
