#include "tune/parts/gpu_implicit_product.h"

#include <algorithm>

#include "ir/annotations.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_product.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// What the iterators of a block are to the product, by their places.
struct Roles {
  std::vector<size_t> rows, columns, terms;  // outermost first
  size_t left = 0, right = 0;                // loads
};

// Rows are those iterators of the output that the image has, of which the window moves; columns those of the weights.
std::optional<Roles> roles_of(const BlockStructure& block) {
  if (!is_matrix_product(block) || product_loops(block)) return {};
  Roles roles;
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
  const auto all_of = [&](const std::vector<size_t>& list) {
    int64_t product = 1;
    for (const size_t i : list) product *= block.extents[i];
    return product;
  };
  if (!fills_tiles(all_of(roles.rows), all_of(roles.columns), all_of(roles.terms))) return {};
  // Terms that are neighbours in memory follow one another.
  for (const size_t load : {roles.right, roles.left})
    if (const auto along =
            std::ranges::find_if(roles.terms, [&](size_t i) { return block.loads[load].strides[i] == 1; });
        along != roles.terms.end())
      std::rotate(along, along + 1, roles.terms.end());
  return roles;
}

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
  Maker(Schedule& s, const std::string& name, const BlockStructure& structure, const Roles& roles)
      : s_(s), name_(name), structure_(structure), roles_(roles) {}

  Result<> run() {
    const Buffer left = structure_.loads[roles_.left].buffer, right = structure_.loads[roles_.right].buffer;
    FETTLE_TRY(block_, get_block(s_, {.name = name_}));
    FETTLE_TRY_VOID(factor(left, roles_.left));
    FETTLE_TRY_VOID(factor(right, roles_.right));
    FETTLE_TRY(const std::vector<bool> of_result, named(structure_.store.buffer));
    FETTLE_TRY_VOID(
        reindex(s_, {.block = block_, .buffer_index = 0, .buffer_index_type = "write"}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(transform_layout(s_, {.block = block_,
                                          .buffer_index = 0,
                                          .buffer_index_type = "write",
                                          .index_map = map_of(true, true, false, of_result)}));
    return transform_block_layout(
        s_, {.block = block_, .index_map = map_of(true, true, true, std::vector<bool>(structure_.n_iters(), true))});
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

  Result<> factor(const Buffer& buffer, size_t load) {
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
    return annotate(s_, {.target = copy, .key = kRoleKey, .value = std::string(kMatrixRole)});
  }

  Schedule& s_;
  const std::string& name_;
  const BlockStructure& structure_;
  const Roles& roles_;
  BlockRef block_{};
};

}  // namespace

Result<> make_matrix_products(Schedule& s) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init) names.push_back(block->name);
  for (const std::string& name : names) {
    const BlockNode* block = find_block(s.func()->body, name);
    const auto structure = block_structure(s.func(), *block);
    const auto roles = structure ? roles_of(*structure) : std::nullopt;
    const bool plain = structure && block->iters.size() == structure->n_iters() &&
                       std::ranges::equal(block->iters, structure->vars, [](const IterVar& iter, const Var& var) {
                         return iter.binding.get() == var.get();
                       });
    if (!roles || !plain) continue;
    Schedule trial = s;
    const auto made = Maker(trial, name, *structure, *roles).run();
    if (made) s = std::move(trial);
  }
  return {};
}

}  // namespace fettle
