#include "tune/parts/tiling.h"

#include <algorithm>
#include <cmath>

#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulation.h"
#include "target/caches.h"
#include "tune/parts/preferences.h"

namespace fettle {
namespace {

namespace pref = preferences;

// By a reformulation, of what is constant.
bool is_made_of_constants(const Func& func, const Buffer& buffer) {
  return std::ranges::any_of(producers_of(func.root(), buffer.get()), [&](const BlockNode* block) {
    return role_of(*block) == kWeightsRole && std::ranges::all_of(block->reads, [&](const Region& read) {
             return read.buffer == buffer || is_constant(func, read.buffer);
           });
  });
}

// Every index a constant, or an iterator alone; the vector iterator is one of them.
bool is_packable(const BlockStructure& block, const AccessPattern& load, size_t vector) {
  bool has_vector = false;
  for (const Expr& index : load.indices) {
    if (is_zero(index)) continue;
    bool is_iter = false;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (index.get() == block.vars[i].get()) {
        is_iter = true;
        has_vector |= i == vector;
      }
    if (!is_iter) return false;
  }
  return has_vector && !load.guarded;
}

// Iterators a (outer) and b may become one loop: all accesses see a*extent(b) + b.
bool fuses(const BlockStructure& block, size_t a, size_t b) {
  const auto fits = [&](const AccessPattern& access) {
    if (access.strides[a] == AccessPattern::kIrregular || access.strides[b] == AccessPattern::kIrregular) return false;
    return access.strides[a] == access.strides[b] * block.extents[b] && !access.guarded;
  };
  if (block.open[a] || block.open[b] || !fits(block.store)) return false;
  return std::all_of(block.loads.begin(), block.loads.end(), fits);
}

// Rows that the windows of `n` neighbouring rows read.
int64_t window(int64_t n, int64_t taps, int64_t step) { return step >= taps ? n * taps : (n - 1) * step + taps; }

// Sums of a tile of several image rows, whose rows have vectors of their own, and what of one row of the windows' taps
// the next one reads, too.
int64_t kept_vectors(const TileProblem& p, const Tile& tile) {
  return (tile.rows + window(tile.rows, p.taps, p.row_step)) * tile.second_rows * tile.vectors;
}

// Cycles of the whole nest, by a closed form.
double predicted_cycles(const TileProblem& p, const Tile& tile, const Target& target) {
  const double fma = target.fma_per_cycle, latency = target.fma_latency_cycles;
  // AVX2: each broadcast is an instruction by itself, and L3 is nearer than on servers of many cores.
  const bool few_registers = target.vector_registers <= pref::kFewRegisters;
  const int64_t l1 = cache_bytes(target, 0);
  const auto l2 = static_cast<double>(cache_bytes(target, 1));
  const int64_t columns = (p.vector_extent + p.lanes - 1) / p.lanes;
  const int64_t panels = (columns + tile.vectors - 1) / tile.vectors;
  const auto cycles_per_step = [&](int64_t rows, int64_t second) {
    const double work = static_cast<double>(rows * second * tile.vectors) / fma;
    // Two loads start in a cycle; a broadcast is one.
    double of_rows = static_cast<double>(rows * second);
    if (!p.shared_vectors) {
      of_rows = static_cast<double>(tile.vectors * window(rows, p.taps, p.row_step)) / static_cast<double>(p.taps);
      if (second > 1)
        of_rows *=
            static_cast<double>(window(second, p.second_taps, p.second_step)) / static_cast<double>(p.second_taps);
    }
    const double loads = (static_cast<double>(tile.vectors) + of_rows) / 2;
    const double waiting = latency * std::min(1.0, static_cast<double>(p.steps) / 4.0);
    const double beside = few_registers ? pref::kLoadBesideOfFew : pref::kLoadBeside;
    // Sums that just cover the latency find their slot late now and then, among so many instructions.
    const double late = waiting >= work ? pref::kTightChain * waiting : 0;
    return std::max({work, loads, waiting}) + beside * loads + late;
  };
  // n tiles of heights q and q + 1.
  const int64_t n_rows = (p.row_extent + tile.rows - 1) / tile.rows;
  const int64_t n_second = (p.second_row_extent + tile.second_rows - 1) / tile.second_rows;
  const int64_t n_tiles = n_rows * n_second;
  const int64_t q = p.row_extent / n_rows, r = p.row_extent % n_rows;
  // Two image rows in a tile: an odd last one is a tile by itself.
  double step = 0;
  const int64_t whole = p.second_row_extent / tile.second_rows, rest = p.second_row_extent % tile.second_rows;
  for (const auto& [count, second] : {std::pair{whole, tile.second_rows}, std::pair{int64_t{rest > 0}, rest}}) {
    if (count == 0) continue;
    if (p.open_rows && n_rows > 1) {  // all are as high, but for the last two
      const int64_t left = p.row_extent - (n_rows - 2) * tile.rows;
      const int64_t last = p.balanced_rows ? left / 2 : left - tile.rows;
      step += static_cast<double>(count) * (cycles_per_step(tile.rows, second) * static_cast<double>(n_rows - 2) +
                                            cycles_per_step(left - last, second) + cycles_per_step(last, second));
      continue;
    }
    step += static_cast<double>(count) * (cycles_per_step(q, second) * static_cast<double>(n_rows - r) +
                                          cycles_per_step(q + 1, second) * static_cast<double>(r));
  }
  const int64_t rows = tile.rows * tile.second_rows;
  // A panel that does not stay in L1 comes from L2 again for each tile.
  const double panel_bytes = static_cast<double>(p.steps * tile.vectors * p.lanes * 4);
  const double row_bytes = static_cast<double>(p.steps * rows * 4);
  if (p.shared_vectors && panel_bytes + row_bytes > pref::kOfFirstLevel * static_cast<double>(l1)) {
    const double near = pref::kVectorsFromSecondLevel * target.vector_bits / 8;
    const double far = few_registers ? pref::kBytesFromBeyondOfFew : pref::kBytesFromBeyond;
    const double bandwidth = panel_bytes + row_bytes > pref::kOfSecondLevel * l2 ? far : near;
    const double traffic = static_cast<double>(tile.vectors * p.lanes * 4) / bandwidth * static_cast<double>(n_tiles);
    step = std::max(step, traffic) + pref::kPanelsNotHidden * traffic;
  }
  // Rows that do not stay in L2 come from beyond it again for each panel.
  if (p.shared_vectors && panels > 1 && static_cast<double>(p.row_extent * p.second_row_extent * p.steps * 4) > l2)
    step +=
        pref::kRowsNotHidden * static_cast<double>(rows * 4) / pref::kBytesFromBeyond * static_cast<double>(n_tiles);
  // Rows that fall into the same cache sets, of which each holds as many lines as the cache has pages.
  const int64_t ways = std::max<int64_t>(8, l1 / 4096);
  if (p.row_stride_bytes > 0 && p.row_stride_bytes % 4096 == 0 && rows > ways)
    step *= 2 * rows > 3 * ways ? pref::kSameSets : pref::kSomeSameSets;
  else if (p.row_stride_bytes > 0 && p.row_stride_bytes % 2048 == 0 && rows > 24)
    step *= pref::kSameSets;
  double cost = step * static_cast<double>(p.steps) * static_cast<double>(panels);
  // Clearing, writing back, and the call.
  cost += static_cast<double>(panels * n_tiles) *
          (pref::kTileCycles + static_cast<double>(rows * tile.vectors) * pref::kSumCycles);
  cost *= static_cast<double>(p.repeats);
  // Lines that lie side by side come together.
  if (p.streamed && !p.shared_vectors && tile.vectors == 1 && columns > 1) cost *= pref::kLinesApart;
  // Pooling whose windows share little, or wait for memory, reads pixels best in runs of two lines.
  if (!p.multiplies && !p.shared_vectors && (p.streamed || p.row_step >= p.taps) && columns > tile.vectors &&
      tile.vectors * p.lanes * 4 < pref::kRunBytes)
    cost *= pref::kShortRuns;
  // What waits for a neighbour finds no register. A few are no matter: not all wait at once.
  if (p.kept_rows > 0 &&
      10 * (rows * tile.vectors + tile.vectors + rows * p.kept_rows) > int64_t{11} * target.vector_registers)
    cost *= pref::kNoRegisterToWait;
  // All taps unrolled: no loop of a few turns, and image rows are read once for several; but of 7 x 7 the compiler
  // finds no order that registers hold. Tiles of two heights or widths are so many more kernels.
  if (!p.shared_vectors && p.second_taps > 1 && tile.second_rows > 1) {
    cost *= p.second_taps < pref::kMostTaps ? pref::kSeveralImageRows : pref::kLargeWindows;
    if (tile.vectors > 1) cost *= pref::kSeveralVectors;
    if (kept_vectors(p, tile) > target.vector_registers) cost *= pref::kTooManySums;
    if (p.row_extent % tile.rows != 0) cost *= pref::kTwoSizes;
    if (p.second_row_extent % tile.second_rows != 0) cost *= pref::kTwoSizes;
  } else if (!p.shared_vectors && p.second_taps > 1 &&
             10 * kept_vectors(p, tile) > int64_t{8} * target.vector_registers) {
    cost *= pref::kSeveralVectors;
  }
  if (p.threads > 1) {
    const int64_t pieces = n_tiles * panels * p.repeats;
    cost *= std::ceil(static_cast<double>(pieces) / p.threads) / static_cast<double>(pieces);
  }
  return cost;
}

// Of an open number of rows: of some numbers around the typical one, each counting as much, and of some that lie close
// by, so that it does not matter much what they are multiples of.
double predicted_cycles_of_any(const TileProblem& p, const Tile& tile, const Target& target) {
  if (!p.open_rows) return predicted_cycles(p, tile, target);
  double cost = 0;
  for (const int64_t eighths : {1, 4, 8, 24})
    for (const int64_t more : {0, 1, 3}) {
      TileProblem some = p;
      some.row_extent = std::max<int64_t>(1, p.row_extent * eighths / 8) + more;
      cost += predicted_cycles(some, tile, target) / static_cast<double>(some.row_extent);
    }
  return cost;
}

}  // namespace

std::optional<TilingRoles> tiling_roles(const Func& func, const BlockStructure& block,
                                        std::optional<size_t> vector_hint, size_t shared) {
  TilingRoles roles;
  std::optional<size_t> vector = vector_hint;
  for (size_t i = 0; i < block.n_iters() && !vector; ++i)
    if (!block.reduce[i] && block.extents[i] > 1 && block.store.strides[i] == 1) vector = i;
  if (!vector) return std::nullopt;
  roles.vector = *vector;
  if (block.extents[*vector] < 2) return std::nullopt;

  for (size_t l = 0; l < block.loads.size(); ++l)
    if (block.loads[l].touches(*vector)) roles.vector_loads.push_back(l);
  for (size_t l : roles.vector_loads) {
    const AccessPattern& load = block.loads[l];
    if (!is_packable(block, load, *vector)) continue;
    const bool constant = is_constant(func, load.buffer) || is_made_of_constants(func, load.buffer);
    if (!constant && load.strides[*vector] == 1) {
      if (!roles.packable) roles.packable = l;
      continue;
    }
    if (!roles.panel || (constant && !roles.panel_is_constant)) {
      roles.panel = l;
      roles.panel_is_constant = constant;
    }
  }

  // A row iterator reuses vectors: something that moves with the vector iterator stands still.
  const auto reuses = [&](size_t i) {
    if (roles.vector_loads.empty()) return true;
    return std::any_of(roles.vector_loads.begin(), roles.vector_loads.end(),
                       [&](size_t l) { return !block.loads[l].touches(i); });
  };
  const auto better_row = [&](size_t i, size_t than) {
    if (reuses(i) != reuses(than)) return reuses(i);
    const bool long_i = block.extents[i] >= 4, long_than = block.extents[than] >= 4;
    if (long_i != long_than) return long_i;
    return block.store.strides[i] < block.store.strides[than];
  };
  for (size_t i = shared; i < block.n_iters(); ++i) {
    if (block.reduce[i] || i == *vector || block.is(i, 1)) continue;
    if (block.store.strides[i] == AccessPattern::kIrregular) continue;
    if (!roles.row || better_row(i, *roles.row)) roles.row = i;
  }
  for (size_t i = shared; i < block.n_iters(); ++i) {
    if (block.reduce[i]) {
      roles.reduce.push_back(i);
    } else if (i != *vector && i != roles.row) {
      (reuses(i) ? roles.outside : roles.batch).push_back(i);
    }
  }
  for (size_t l = 0; l < block.loads.size(); ++l)
    if (roles.row && block.loads[l].touches(*roles.row) && !block.loads[l].touches(*vector))
      roles.row_loads.push_back(l);

  // The reduction in the order in which the rows' operand lies in memory.
  const size_t order_load = !roles.row_loads.empty() ? roles.row_loads.front() : 0;
  if (!block.loads.empty())
    std::stable_sort(roles.reduce.begin(), roles.reduce.end(), [&](size_t a, size_t b) {
      const auto& strides = block.loads[order_load].strides;
      const auto key = [&](size_t i) {
        if (block.is(i, 1)) return INT64_MAX;  // no loop
        return strides[i] == AccessPattern::kIrregular ? INT64_MAX - 1 : std::abs(strides[i]);
      };
      return key(a) > key(b);
    });

  const bool windows = roles.row && std::ranges::any_of(roles.vector_loads, [&](size_t l) {
                         return std::ranges::any_of(roles.reduce, [&](size_t r) {
                           return block.loads[l].shares_dimension(block.vars[r], block.vars[*roles.row]);
                         });
                       });
  if (roles.row && (block.extents[*roles.row] < pref::kFewRows || windows))
    for (size_t i : roles.outside)
      if (block.extents[i] > 1 && !block.open[i] && block.store.strides[i] != AccessPattern::kIrregular &&
          (!roles.second_row || block.store.strides[i] < block.store.strides[*roles.second_row]))
        roles.second_row = i;

  if (roles.row && shared == 0) {
    for (size_t step = *roles.row; step-- > 0;) {
      const bool is_outside = std::find(roles.outside.begin(), roles.outside.end(), step) != roles.outside.end();
      if (block.is(step, 1) && is_outside) continue;
      // Further ones would have to fit the fused extent.
      if (is_outside && fuses(block, step, *roles.row)) roles.flat = *roles.row - step;
      break;
    }
  }
  return roles;
}

std::string Tile::name() const {
  std::string name = std::to_string(rows);
  if (second_rows > 1) name.append("+").append(std::to_string(second_rows));
  return name.append("x").append(std::to_string(vectors));
}

std::vector<Tile> ranked_tiles(const TileProblem& p, const Target& target) {
  std::vector<Tile> tiles;
  const int64_t columns = (p.vector_extent + p.lanes - 1) / p.lanes;
  const bool apart = !p.shared_vectors && p.taps > 1;  // windows, each row of vectors of its own
  for (int64_t vectors : {1, 2, 3, 4, 5, 6, 8}) {
    if (vectors > columns && vectors > 1) break;
    int64_t last_tiles = -1;
    for (int64_t rows = 1; rows <= std::min(p.row_extent, p.open_rows ? pref::kMostOpenRows : pref::kMostRows);
         ++rows) {
      // What windows share is loaded once and kept; a tap's weights may come from memory.
      const int64_t needed = apart ? rows * vectors + window(rows, p.taps, p.row_step) * vectors
                                   : rows * vectors + vectors + (p.shared_vectors ? 1 : 2);
      if (needed > target.vector_registers) break;
      const int64_t n_tiles = (p.row_extent + rows - 1) / rows;
      if (n_tiles == last_tiles && !p.open_rows) continue;  // a smaller height needs as few
      last_tiles = n_tiles;
      tiles.push_back({.rows = rows, .vectors = vectors});
    }
    if (apart) {
      // Image rows that a tile has in common with itself: the longest rows whose vectors find registers, those for
      // which what the next image row of the window reads, too, does as well, and the longest of which all are as long.
      // Tiles of two pixels a row are for windows alone: channels to sum up over want more rows to a load.
      const bool narrow = p.steps == p.taps * p.second_taps;
      for (int64_t second : {2, 3, 4}) {
        if (second > p.second_row_extent || p.second_step >= p.second_taps) break;
        bool has_longest = false, has_kept = false;
        for (int64_t rows : {8, 7, 6, 5, 4, 3, 2}) {
          if (rows > p.row_extent || (rows == 2 && (vectors > 1 || !narrow)) ||
              (rows * second + 2 * window(rows, p.taps, p.row_step)) * vectors > target.vector_registers)
            continue;
          const Tile tile{.rows = rows, .vectors = vectors, .second_rows = second};
          const bool divides = p.row_extent % rows == 0, kept = kept_vectors(p, tile) <= target.vector_registers;
          if (!has_longest || divides || (kept && !has_kept)) tiles.push_back(tile);
          has_longest = true;
          has_kept |= kept;
          if (divides && kept) break;
        }
      }
    } else if (p.row_extent < pref::kFewRows) {
      for (int64_t second : {2, 3, 4}) {
        if (second > p.second_row_extent) break;
        if (second * p.row_extent * vectors + vectors + 1 > target.vector_registers) break;
        tiles.push_back({.rows = p.row_extent, .vectors = vectors, .second_rows = second});
      }
    }
  }
  for (Tile& tile : tiles) tile.cost = predicted_cycles_of_any(p, tile, target);
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.cost < b.cost; });
  return tiles;
}

}  // namespace fettle
