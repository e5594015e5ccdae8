#include "tune/parts/panels.h"

#include <algorithm>

namespace fettle {

IndexMap panel_map(const BlockStructure& block, const TilingRoles& roles, const AccessPattern& load, int64_t width,
                   std::optional<size_t> blocked_reduce, int64_t lanes) {
  struct Dim {
    size_t rank;
    Expr index;
  };
  IndexMap map;
  Expr panel, lane;
  std::vector<Dim> dims;
  constexpr size_t kReduce = 1000;  // spatial iterators first, then the reduction in the order of its loops
  for (const Expr& index : load.indices) {
    const Var var = make_var("d" + std::to_string(map.inputs.size()));
    map.inputs.push_back(var);
    std::optional<size_t> iter;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (index.get() == block.vars[i].get()) iter = i;
    if (iter == roles.vector) {
      panel = floordiv(Expr(var), Expr(width));
      lane = floormod(Expr(var), Expr(width));
      continue;
    }
    const auto at = iter ? std::find(roles.reduce.begin(), roles.reduce.end(), *iter) : roles.reduce.end();
    if (at == roles.reduce.end()) {
      dims.push_back({iter ? *iter + 1 : 0, Expr(var)});
      continue;
    }
    const size_t rank = kReduce + static_cast<size_t>(at - roles.reduce.begin());
    if (iter == blocked_reduce) {
      dims.push_back({rank, floordiv(Expr(var), Expr(lanes))});
      dims.push_back({2 * kReduce, floormod(Expr(var), Expr(lanes))});
    } else {
      dims.push_back({rank, Expr(var)});
    }
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.rank < b.rank; });
  for (const Dim& dim : dims)
    if (dim.rank < kReduce) map.outputs.push_back(dim.index);
  map.outputs.push_back(panel);
  for (const Dim& dim : dims)
    if (dim.rank >= kReduce) map.outputs.push_back(dim.index);
  map.outputs.push_back(lane);
  return map;
}

IndexMap flat_map(const BlockStructure& block, const TilingRoles& roles) {
  const auto merged = [&](size_t iter) { return iter < *roles.row && iter + roles.flat >= *roles.row; };
  IndexMap map;
  Expr flat;
  size_t position = 0;
  for (size_t d = 0; d < block.store.indices.size(); ++d) {
    const Var var = make_var("d" + std::to_string(d));
    map.inputs.push_back(var);
    std::optional<size_t> iter;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (block.store.indices[d].get() == block.vars[i].get()) iter = i;
    if (!iter || (iter != roles.row && !merged(*iter))) {
      map.outputs.push_back(Expr(var));
    } else if (!flat) {
      flat = Expr(var);
      position = map.outputs.size();
      map.outputs.push_back(flat);
    } else {
      flat = flat * Expr(block.extents[*iter]) + Expr(var);
      map.outputs[position] = flat;
    }
  }
  return map;
}

}  // namespace fettle
