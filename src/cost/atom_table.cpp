#include "cost/atom_table.h"

#include <algorithm>
#include <cmath>

namespace fettle {

const TileCosts* AtomTable::nearest(const Work& work) const {
  const TileCosts* best = nullptr;
  double best_distance = 0;
  for (const TileCosts& tile : tiles_) {
    const double rows = std::log2((work.broadcasts + 1) / (tile.rows + 1.0));
    const double vectors = std::log2((work.vector_loads() + 1.0) / (tile.vectors + 1.0));
    const double distance = rows * rows + 2 * vectors * vectors;
    if (!best || distance < best_distance) {
      best = &tile;
      best_distance = distance;
    }
  }
  return best;
}

double AtomTable::step_cycles(const Work& work, RowMode mode) const {
  const double analytic = work_cycles(work, costs_, true);
  const TileCosts* tile = nearest(work);
  if (!tile) return analytic;
  Work like;
  like.fma = like.accumulators = like.live_registers = tile->rows * tile->vectors;
  like.broadcasts = tile->rows;
  like.loads = tile->rows + tile->vectors;
  return analytic * tile->step_cycles[static_cast<size_t>(mode)] / work_cycles(like, costs_, true);
}

}  // namespace fettle
