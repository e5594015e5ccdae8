#include "tune/parts/materialized_factors.h"

#include <algorithm>

#include "ir/query.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/extent.h"
#include "tune/parts/preferences.h"
#include "tune/parts/structure.h"
#include "tune/parts/tensor_product.h"

namespace fettle {
namespace {

constexpr int kMostBits = 16;

bool uses(const Expr& e, const IterVar& iter) { return uses_var(e, iter.var.get()); }

// Made of narrow elements alone, of scales and zero points besides, each index of which is an iterator or a constant.
bool is_narrow(const Func& func, const Expr& factor) {
  if (factor.as<LoadNode>()) return false;
  bool narrow = false, plain = true;
  each_node<LoadNode>(factor, [&](const LoadNode& load) {
    narrow |= load.buffer->dtype.bits <= kMostBits;
    plain &= load.buffer->dtype.bits <= kMostBits || is_constant(func, load.buffer);
    for (const Expr& index : load.indices) plain &= index.as<VarNode>() || as_int(index);
  });
  return narrow && plain;
}

// Whether a panel of the factor can be filled in vectors: what it reads along the columns is constant, or contiguous.
bool fills_vectors(const Func& func, const Expr& factor, const VarNode* column) {
  bool fills = true;
  each_node<LoadNode>(factor, [&](const LoadNode& load) {
    const bool moves = std::ranges::any_of(load.indices, [&](const Expr& e) { return uses_var(e, column); });
    fills &= !moves || is_constant(func, load.buffer) || load.indices.back().get() == column;
  });
  return fills;
}

// Beside a panel, a tile of rows reads elements as they are, or widened.
bool is_element(const Expr& e) {
  const auto* converted = e.as<CastNode>();
  return (converted ? converted->a : e).as<LoadNode>() != nullptr;
}

// Whether some index moves with an output dimension and with the reduction, as those of a convolution do.
bool has_windows(const Expr& factor, const BlockNode& block) {
  const auto moves = [&](const Expr& index, IterKind kind) {
    return std::ranges::any_of(block.iters, [&](const IterVar& i) { return i.kind == kind && uses(index, i); });
  };
  bool found = false;
  each_node<LoadNode>(factor, [&](const LoadNode& load) {
    for (const Expr& index : load.indices) found |= moves(index, IterKind::kSpatial) && moves(index, IterKind::kReduce);
  });
  return found;
}

// That make a vector of the factor, beside loads: f16 is widened as it is loaded. What is no constant lies in rows
// apart, which a panel brings together: that counts as one more.
int64_t instructions_of(const Func& func, const Expr& factor) {
  bool constant = true;
  each_node<LoadNode>(factor, [&](const LoadNode& load) { constant &= is_constant(func, load.buffer); });
  int64_t count = constant ? 0 : 1;
  walk(factor, [&](const Expr& e) {
    if (e.as<LoadNode>() || !reads_memory(e)) return false;
    const auto* converted = e.as<CastNode>();
    if (e.as<BinaryNode>() || (converted && !(converted->a.dtype() == kF16))) ++count;
    return true;
  });
  return count;
}

}  // namespace

bool NarrowProduct::fills_panels() const { return columns && n_rows * instructions >= preferences::kSavedByWidePanel; }

std::optional<NarrowProduct> narrow_product(const Func& func, const Target& target) {
  const BlockNode* block = only_reduction(func);
  const auto structure = block ? block_structure(func, *block, Extents::kOpen) : std::nullopt;
  if (!structure || tensor_product(*block, *structure, target)) return {};
  const auto combiner = match_combiner(func, *block);
  if (!combiner || combiner->op != BinaryOp::kAdd || combiner->term.dtype() != kF32) return {};
  const auto* product = combiner->term.as<BinaryNode>();
  if (!product || product->op != BinaryOp::kMul || combiner->update->indices.empty()) return {};
  const auto* column = combiner->update->indices.back().as<VarNode>();
  const Expr factors[] = {product->a, product->b};
  if (!column || uses_var(factors[0], column) == uses_var(factors[1], column)) return {};
  const int64_t of_columns = uses_var(factors[0], column) ? 0 : 1, of_rows = 1 - of_columns;
  if (has_windows(factors[0], *block) || has_windows(factors[1], *block)) return {};

  NarrowProduct made{.block = block->name};
  const IntEnv typical = typical_values(func);
  for (const IterVar& iter : block->iters) {
    if (iter.kind == IterKind::kReduce) continue;
    const int64_t extent = extent_of(iter.extent, typical).value;
    if (iter.var.get() == column)
      made.n_columns = extent;
    else if (!uses(factors[of_columns], iter))
      made.n_rows *= extent;
  }
  if (is_narrow(func, factors[of_columns]) && fills_vectors(func, factors[of_columns], column) &&
      is_element(factors[of_rows]))
    made.columns = of_columns;
  made.instructions = instructions_of(func, factors[of_columns]);
  if (is_narrow(func, factors[of_rows])) made.rows = of_rows;
  return made.rows || made.columns ? std::optional(made) : std::nullopt;
}

Result<> materialize(Schedule& s, const std::string& block, std::vector<int64_t> factors) {
  std::ranges::sort(factors);
  FETTLE_TRY(const BlockRef ref, get_block(s, {.name = block}));
  return reformulate(s, {.block = ref, .kind = "materialize_factors", .numbers = {factors.begin(), factors.end()}})
      .map([](const std::vector<BlockRef>&) {});
}

const BlockNode* materialized_for(const Func& func, const BlockNode& reader, const Buffer& buffer) {
  const std::vector<const BlockNode*> makers = producers_of(func.root(), buffer.get());
  const bool is_one = makers.size() == 1 && role_of(*makers[0]) == kDataRole && part_of(*makers[0]) == reader.name;
  return is_one ? makers[0] : nullptr;
}

}  // namespace fettle
