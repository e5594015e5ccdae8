#include "tune/parts/phases.h"

#include "ir/visit.h"
#include "schedule/primitives.h"
#include "tune/parts/loops.h"

namespace fettle {
namespace {

/// Smaller ones do not fill the smallest vector.
constexpr int64_t kLeastGroup = 4;

// The size of the groups that a load sees of an iterator, which it uses in no other way: 0 where there are none.
int64_t group_of(const AccessPattern& load, const Var& var) {
  int64_t size = 0;
  bool otherwise = false;
  for (const Expr& index : load.indices)
    walk(index, [&](const Expr& e) {
      if (e.get() == var.get()) otherwise = true;
      const auto* part = e.as<BinaryNode>();
      if (!part || part->op != BinaryOp::kFloorDiv || part->a.get() != var.get()) return true;
      const int64_t* divisor = as_int(part->b);
      if (!divisor || (size != 0 && size != *divisor)) otherwise = true;
      if (divisor) size = *divisor;
      return false;
    });
  return otherwise ? 0 : size;
}

// (…, c, …) → (…, c // size, c % size, …)
IndexMap parts_of(size_t n, size_t iter, int64_t size) {
  IndexMap map;
  for (size_t i = 0; i < n; ++i) {
    const Var& var = map.inputs.emplace_back(make_var("i" + std::to_string(i)));
    if (i == iter) map.outputs.push_back(floordiv(Expr(var), size));
    map.outputs.push_back(i == iter ? floormod(Expr(var), size) : Expr(var));
  }
  return map;
}

// Constants that have the iterator for an index, as weights have, lie in groups too: panels of them have whole indices.
Result<> split_constants(Schedule& s, BlockRef block, const BlockStructure& structure, size_t iter, int64_t size) {
  for (const AccessPattern& load : structure.loads) {
    const int d = load.dimension_of(structure.vars[iter]);
    if (d < 0 || !is_constant(s.func(), load.buffer)) continue;
    FETTLE_TRY(const BlockNode* node, block_node(s, block));
    const auto read = std::ranges::find(node->reads, load.buffer, &Region::buffer);
    if (read == node->reads.end()) continue;
    const IndexMap map = parts_of(load.indices.size(), static_cast<size_t>(d), size);
    FETTLE_TRY_VOID(transform_layout(
        s,
        {.block = block, .buffer_index = read - node->reads.begin(), .buffer_index_type = "read", .index_map = map}));
  }
  return {};
}

}  // namespace

Result<> split_phases(Schedule& s, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  if (!structure) return {};
  const std::vector<Phase> phases = phases_of(*structure);
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  for (const Phase& phase : phases)
    if (structure->store.strides[phase.loop] != 1)  // which fills vectors
      FETTLE_TRY_VOID(
          split(s, {.loop = loops[phase.loop], .factors = {kInfer, phase.factor}}).map([](const std::vector<LoopRef>&) {
          }));
  return {};
}

Result<> split_groups(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  if (!structure || !structure->multiplies_two_loads) return {};
  const int64_t lanes = lanes_of(target, structure->store.buffer->dtype);
  for (size_t i = 0; i < structure->n_iters(); ++i) {
    if (structure->reduce[i]) continue;
    const bool is_row = structure->store.strides[i] != 1;  // whose group reads vectors of its own, shared in it
    int64_t size = 0;
    bool fills_vectors = is_row;  // in place, or packed
    for (const AccessPattern& load : structure->loads) {
      const int64_t group = group_of(load, structure->vars[i]);
      if (group > 0) size = group;
      const bool packed = group == 0 && load.touches(i) && is_constant(s.func(), load.buffer);
      fills_vectors |= load.strides[i] == 1 || packed;
    }
    if (!fills_vectors || size < kLeastGroup || structure->open[i] || structure->extents[i] % size != 0) continue;
    FETTLE_TRY(const int64_t groups,
               decider.pick(s, {"groups", {0, 1}, size % lanes == 0 && !is_row ? size_t{0} : size_t{1}}));
    if (groups == 0) return {};
    FETTLE_TRY_VOID(split_constants(s, block, *structure, i, size));
    return transform_block_layout(s, {.block = block, .index_map = parts_of(structure->n_iters(), i, size)});
  }
  return {};
}

}  // namespace fettle
