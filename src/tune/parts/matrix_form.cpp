#include "tune/parts/matrix_form.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/primitives.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Of these iterators, which `inputs` stand for, one index, the last innermost.
Expr fused(const std::vector<size_t>& members, const std::vector<std::pair<size_t, Var>>& inputs,
           const std::vector<int64_t>& extents) {
  Expr index = 0;
  for (const size_t member : members)
    for (const auto& [place, var] : inputs)
      if (place == member) index = index * extents[member] + Expr(var);
  return simplify(index);
}

class Maker {
 public:
  Maker(Schedule& s, BlockRef block, const BlockStructure& structure, const MatrixRoles& roles)
      : s_(s), block_(block), structure_(structure), roles_(roles) {}

  Result<MatrixCopies> run() {
    const Buffer left = structure_.loads[roles_.left].buffer, right = structure_.loads[roles_.right].buffer;
    MatrixCopies copies;
    FETTLE_TRY(copies.left, factor(left, roles_.left));
    FETTLE_TRY(copies.right, factor(right, roles_.right));
    FETTLE_TRY(const std::vector<bool> of_result, named(structure_.store.buffer));
    FETTLE_TRY(copies.result, reindex(s_, {.block = block_, .buffer_index = 0, .buffer_index_type = "write"}));
    copies.of_result = map_of(true, true, false, of_result);
    FETTLE_TRY_VOID(transform_layout(
        s_, {.block = block_, .buffer_index = 0, .buffer_index_type = "write", .index_map = copies.of_result}));
    FETTLE_TRY_VOID(transform_block_layout(
        s_, {.block = block_, .index_map = map_of(true, true, true, std::vector<bool>(structure_.n_iters(), true))}));
    return copies;
  }

 private:
  // Which iterators the block's indices of a buffer name.
  Result<std::vector<bool>> named(const Buffer& buffer) const {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    auto accesses = loads_of(node->body, buffer.get());
    if (accesses.empty()) accesses = stores_of(node->body, buffer.get());
    std::vector<bool> are(node->iters.size(), false);
    for (const std::vector<Expr>& indices : accesses)
      for (size_t i = 0; i < are.size(); ++i)
        for (const Expr& index : indices) are[i] = are[i] || uses_var(index, node->iters[i].var.get());
    return are;
  }

  // These iterators, in the block's order, to rows, columns and terms.
  IndexMap map_of(bool rows, bool columns, bool terms, const std::vector<bool>& which) const {
    IndexMap map;
    std::vector<std::pair<size_t, Var>> inputs;
    for (size_t i = 0; i < structure_.n_iters(); ++i) {
      if (!which[i]) continue;
      const Var var = make_var("d" + std::to_string(i));
      map.inputs.push_back(var);
      inputs.emplace_back(i, var);
    }
    if (rows) map.outputs.push_back(fused(roles_.rows, inputs, structure_.extents));
    if (columns) map.outputs.push_back(fused(roles_.columns, inputs, structure_.extents));
    if (terms) map.outputs.push_back(fused(roles_.terms, inputs, structure_.extents));
    return map;
  }

  Result<BlockRef> factor(const Buffer& buffer, size_t load) {
    FETTLE_TRY(const int64_t read, read_index_of(s_, block_, buffer));
    FETTLE_TRY(const std::vector<bool> of_factor, named(buffer));
    FETTLE_TRY(const BlockRef copy, reindex(s_, {.block = block_, .buffer_index = read, .buffer_index_type = "read"}));
    const bool is_left = load == roles_.left;
    IndexMap map = map_of(is_left, !is_left, true, of_factor);
    // What lies side by side in memory does so in the matrix.
    const auto& own = is_left ? roles_.rows : roles_.columns;
    if (std::ranges::any_of(own, [&](size_t i) { return structure_.loads[load].strides[i] == 1; }))
      std::swap(map.outputs[0], map.outputs[1]);
    FETTLE_TRY_VOID(
        transform_layout(s_, {.block = copy, .buffer_index = 0, .buffer_index_type = "write", .index_map = map}));
    return copy;
  }

  Schedule& s_;
  const BlockRef block_;
  const BlockStructure& structure_;
  const MatrixRoles& roles_;
};

}  // namespace

std::optional<MatrixRoles> matrix_roles(const BlockStructure& block) {
  if (block.loads.size() != 2) return {};
  MatrixRoles roles;
  // The columns are those along which the result is contiguous.
  for (size_t i = 0; i < block.n_iters(); ++i)
    if (!block.reduce[i] && block.store.strides[i] == 1) roles.right = block.loads[0].touches(i) ? 0 : 1;
  roles.left = 1 - roles.right;
  for (const AccessPattern& load : block.loads)
    if (load.guarded) return {};
  for (size_t i = 0; i < block.n_iters(); ++i) {
    const bool in_left = block.loads[roles.left].touches(i), in_right = block.loads[roles.right].touches(i);
    if (block.reduce[i]) {
      if ((!in_left || !in_right) && block.extents[i] > 1) return {};
      roles.terms.push_back(i);
    } else {
      if (in_left == in_right && block.extents[i] > 1) return {};
      (in_right ? roles.columns : roles.rows).push_back(i);
    }
  }
  // Terms that are neighbours in memory follow one another.
  for (const size_t load : {roles.right, roles.left})
    if (const auto along =
            std::ranges::find_if(roles.terms, [&](size_t i) { return block.loads[load].strides[i] == 1; });
        along != roles.terms.end())
      std::rotate(along, along + 1, roles.terms.end());
  return roles;
}

int64_t extent_of(const BlockStructure& block, const std::vector<size_t>& iters) {
  int64_t product = 1;
  for (const size_t i : iters) product *= block.extents[i];
  return product;
}

Result<MatrixCopies> make_matrix_product(Schedule& s, BlockRef block, const BlockStructure& structure,
                                         const MatrixRoles& roles) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const bool plain = node->iters.size() == structure.n_iters() &&
                     std::ranges::equal(node->iters, structure.vars, [](const IterVar& iter, const Var& var) {
                       return iter.binding.get() == var.get();
                     });
  if (!plain) return fail(ErrorCode::E230, std::string(node->name) + " is in other loops than its iterators");
  return Maker(s, block, structure, roles).run();
}

}  // namespace fettle
