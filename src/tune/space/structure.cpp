#include "tune/space/structure.h"

#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/edit.h"

namespace fettle {
namespace {

std::vector<int64_t> dimension_strides(const BufferNode& buffer) {
  std::vector<int64_t> strides(buffer.shape.size(), AccessPattern::kIrregular);
  if (!buffer.strides.empty()) {
    for (size_t d = 0; d < strides.size(); ++d)
      if (const int64_t* value = as_int(buffer.strides[d])) strides[d] = *value;
    return strides;
  }
  int64_t step = 1;
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = step;
    const int64_t* extent = as_int(buffer.shape[d]);
    if (!extent) break;
    step *= *extent;
  }
  return strides;
}

// Adds the loads below `e`; `guarded` under a selection.
void collect_loads(const Expr& e, bool guarded, std::vector<std::pair<const LoadNode*, bool>>& out) {
  if (const auto* load = e.as<LoadNode>()) {
    out.emplace_back(load, guarded);
    for (const Expr& index : load->indices) collect_loads(index, guarded, out);
  } else if (const auto* select = e.as<SelectNode>()) {
    collect_loads(select->condition, guarded, out);
    collect_loads(select->if_true, true, out);
    collect_loads(select->if_false, true, out);
  } else if (const auto* binary = e.as<BinaryNode>()) {
    collect_loads(binary->a, guarded, out);
    collect_loads(binary->b, guarded, out);
  } else if (const auto* inverted = e.as<NotNode>()) {
    collect_loads(inverted->a, guarded, out);
  } else if (const auto* converted = e.as<CastNode>()) {
    collect_loads(converted->a, guarded, out);
  } else if (const auto* call = e.as<CallNode>()) {
    for (const Expr& arg : call->args) collect_loads(arg, guarded, out);
  }
}

}  // namespace

int AccessPattern::dimension_of(const Var& var) const {
  for (size_t d = 0; d < indices.size(); ++d)
    if (indices[d].get() == var.get()) return static_cast<int>(d);
  return -1;
}

bool AccessPattern::shares_dimension(const Var& a, const Var& b) const {
  for (const Expr& index : indices)
    if (uses_var(index, a.get()) && uses_var(index, b.get())) return true;
  return false;
}

int64_t BlockStructure::points() const {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

std::vector<int64_t> access_strides(const BufferNode& buffer, const std::vector<Expr>& indices,
                                    const std::vector<Var>& vars) {
  const std::vector<int64_t> dims = dimension_strides(buffer);
  std::vector<int64_t> strides(vars.size(), 0);
  for (size_t d = 0; d < indices.size(); ++d) {
    for (const LinearTerm& term : linear_form(indices[d]).terms) {
      for (size_t i = 0; i < vars.size(); ++i) {
        if (term.expr.get() == vars[i].get()) {
          if (strides[i] == AccessPattern::kIrregular) continue;
          strides[i] = dims[d] == AccessPattern::kIrregular ? AccessPattern::kIrregular
                                                            : strides[i] + term.coeff * dims[d];
        } else if (!term.expr.as<VarNode>() && uses_var(term.expr, vars[i].get())) {
          strides[i] = AccessPattern::kIrregular;
        }
      }
    }
  }
  return strides;
}

bool only_moves(const Expr& value) {
  if (const auto* select = value.as<SelectNode>()) return only_moves(select->if_true) && only_moves(select->if_false);
  if (const auto* converted = value.as<CastNode>()) return only_moves(converted->a);
  return value.as<LoadNode>() || value.as<IntImmNode>() || value.as<FloatImmNode>();
}

std::optional<BlockStructure> block_structure(const Func& func, const BlockNode& block) {
  BlockStructure structure;
  structure.block = &block;
  const StoreNode* store = single_store(block);
  if (!store || block.predicate) return std::nullopt;

  const std::vector<const ForNode*> loops = loops_around(func, &block);
  if (loops.size() != block.iters.size()) return std::nullopt;
  std::vector<Var> vars;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    const int64_t* extent = as_int(iter.extent);
    if (!extent || *extent < 1) return std::nullopt;
    if (iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce) return std::nullopt;
    const ForNode& loop = *loops[i];
    const int64_t* loop_extent = as_int(loop.extent);
    if (iter.binding.get() != loop.var.get() && !(*extent == 1 && is_zero(iter.binding))) return std::nullopt;
    if (!loop_extent || *loop_extent != *extent || !is_zero(loop.min)) return std::nullopt;
    if (loop.loop_kind != ForKind::kSerial || !loop.annotations.entries.empty()) return std::nullopt;
    structure.extents.push_back(*extent);
    structure.reduce.push_back(iter.kind == IterKind::kReduce);
    vars.push_back(iter.var);
  }

  structure.store = {store->buffer, store->indices, access_strides(*store->buffer, store->indices, vars), false};
  std::vector<std::pair<const LoadNode*, bool>> loads;
  collect_loads(store->value, false, loads);
  for (const auto& [load, guarded] : loads) {
    if (load->buffer == store->buffer) continue;
    bool known = false;
    for (AccessPattern& other : structure.loads) {
      if (other.buffer != load->buffer) continue;
      known = true;
      for (size_t d = 0; d < load->indices.size(); ++d)
        if (!structural_equal(other.indices[d], load->indices[d])) known = false;
      if (known) {
        other.guarded |= guarded;
        break;
      }
    }
    if (!known)
      structure.loads.push_back(
          {load->buffer, load->indices, access_strides(*load->buffer, load->indices, vars), guarded});
  }
  if (const auto* sum = store->value.as<BinaryNode>(); sum && sum->op == BinaryOp::kAdd)
    for (const Expr& side : {sum->a, sum->b})
      if (const auto* product = side.as<BinaryNode>(); product && product->op == BinaryOp::kMul)
        structure.multiplies_two_loads = structure.loads.size() == 2;
  return structure;
}

}  // namespace fettle
