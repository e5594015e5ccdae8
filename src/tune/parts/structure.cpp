#include "tune/parts/structure.h"

#include <algorithm>
#include <numeric>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "target/caches.h"
#include "tune/parts/extent.h"

namespace fettle {
namespace {

// The value of what is no constant: never taken for that of neighbours, or of what stands still.
std::optional<int64_t> typical_stride(const Expr& e, const IntEnv& typical) {
  if (const int64_t* constant = as_int(e)) return *constant;
  int64_t value = 0;
  if (evaluate_int(e, typical, value) != IntProblem::kNone) return std::nullopt;
  return std::max<int64_t>(2, value);
}

std::vector<int64_t> dimension_strides(const BufferNode& buffer, const IntEnv& typical) {
  std::vector<int64_t> strides(buffer.shape.size(), AccessPattern::kIrregular);
  if (!buffer.strides.empty()) {
    for (size_t d = 0; d < strides.size(); ++d)
      strides[d] = typical_stride(buffer.strides[d], typical).value_or(AccessPattern::kIrregular);
    return strides;
  }
  int64_t step = 1;
  bool open = false;
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = open ? std::max<int64_t>(2, step) : step;
    open |= !as_int(buffer.shape[d]);
    int64_t extent = 0;
    if (evaluate_int(buffer.shape[d], typical, extent) != IntProblem::kNone) break;
    step *= extent;
  }
  return strides;
}

// What a term is multiplied with, where that is made of integer parameters: of i * n the value of n.
std::optional<int64_t> typical_factor(const Expr& term, const VarNode* var, const IntEnv& typical) {
  const auto* product = term.as<BinaryNode>();
  if (!product || product->op != BinaryOp::kMul) return std::nullopt;
  if (product->a.get() == var && !uses_var(product->b, var)) return typical_stride(product->b, typical);
  if (product->b.get() == var && !uses_var(product->a, var)) return typical_stride(product->a, typical);
  return std::nullopt;
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

bool is_constant(const Func& func, const Buffer& buffer) {
  const Param* param = func.find_param(buffer.get());
  return param && param->kind == ParamKind::kConstant;
}

std::vector<int64_t> access_strides(const BufferNode& buffer, const std::vector<Expr>& indices,
                                    const std::vector<Var>& vars, const IntEnv& typical) {
  const std::vector<int64_t> dims = dimension_strides(buffer, typical);
  std::vector<int64_t> strides(vars.size(), 0);
  for (size_t d = 0; d < indices.size(); ++d) {
    for (const LinearTerm& term : linear_form(indices[d]).terms) {
      for (size_t i = 0; i < vars.size(); ++i) {
        if (term.expr.get() == vars[i].get()) {
          if (strides[i] == AccessPattern::kIrregular) continue;
          strides[i] =
              dims[d] == AccessPattern::kIrregular ? AccessPattern::kIrregular : strides[i] + term.coeff * dims[d];
        } else if (!term.expr.as<VarNode>() && uses_var(term.expr, vars[i].get())) {
          const auto factor = typical_factor(term.expr, vars[i].get(), typical);
          const bool known = factor && strides[i] != AccessPattern::kIrregular && dims[d] != AccessPattern::kIrregular;
          strides[i] = known ? strides[i] + term.coeff * *factor * dims[d] : AccessPattern::kIrregular;
        }
      }
    }
  }
  return strides;
}

std::vector<Phase> phases_of(const BlockStructure& block) {
  std::vector<Phase> phases;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    if (block.reduce[i]) continue;
    int64_t factor = 0;
    bool fits = true;
    for (const AccessPattern& load : block.loads)
      for (const Expr& index : load.indices)
        walk(index, [&](const Expr& e) {
          if (e.get() == block.vars[i].get()) fits = false;
          const auto* part = e.as<BinaryNode>();
          if (!part || (part->op != BinaryOp::kFloorDiv && part->op != BinaryOp::kFloorMod)) return true;
          const int64_t* divisor = as_int(part->b);
          if (part->a.get() != block.vars[i].get() || !divisor) return true;
          if (factor != 0 && factor != *divisor) fits = false;
          factor = *divisor;
          return false;
        });
    if (fits && factor > 1 && block.divisors[i] % factor == 0) phases.push_back({i, factor});
  }
  return phases;
}

size_t contiguous_tail(const BlockStructure& block) {
  const size_t n = block.n_iters();
  size_t count = 1;
  for (size_t i = n - 1; i-- > 0; ++count) {
    if (block.reduce[i] || block.reduce[i + 1] || block.open[i + 1]) break;
    const auto fits = [&](const AccessPattern& access) {
      const int64_t a = access.strides[i], b = access.strides[i + 1];
      if (a == AccessPattern::kIrregular || b == AccessPattern::kIrregular || access.guarded) return false;
      return block.extents[i] == 1 || a == b * block.extents[i + 1];
    };
    if (!fits(block.store) || !std::all_of(block.loads.begin(), block.loads.end(), fits)) break;
  }
  return count;
}

bool combines_itself(const BlockNode& block) {
  const StoreNode* store = single_store(block);
  const auto* both = store && !block.init ? store->value.as<BinaryNode>() : nullptr;
  const auto* a = both ? both->a.as<LoadNode>() : nullptr;
  const auto* b = both ? both->b.as<LoadNode>() : nullptr;
  return a && b && a->buffer == b->buffer;
}

bool only_moves(const Expr& value) {
  if (const auto* select = value.as<SelectNode>()) return only_moves(select->if_true) && only_moves(select->if_false);
  if (const auto* converted = value.as<CastNode>()) return only_moves(converted->a);
  return value.as<LoadNode>() || value.as<IntImmNode>() || value.as<FloatImmNode>();
}

const BlockNode* only_reduction(const Func& func) {
  const BlockNode* found = nullptr;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    if (found) return nullptr;
    found = block;
  }
  return found;
}

std::optional<BlockStructure> block_structure(const Func& func, const BlockNode& block, Extents extents) {
  BlockStructure structure;
  const StoreNode* store = single_store(block);
  if (!store || block.predicate) return std::nullopt;

  const IntEnv typical = typical_values(func);
  Analyzer analyzer;
  analyzer.bind_params(func);
  for (const ForNode* loop : loops_around(func, &block)) {
    const Extent extent = extent_of(loop->extent, typical);
    if ((!extent.constant && extents == Extents::kConstant) || extent.value < 1 || !is_zero(loop->min))
      return std::nullopt;
    if (loop->loop_kind != ForKind::kSerial || !loop->annotations.entries.empty()) return std::nullopt;
    structure.vars.push_back(loop->var);
    structure.extents.push_back(extent.value);
    structure.open.push_back(!extent.constant);
    const Modular multiples = analyzer.modular(loop->extent);
    structure.divisors.push_back(std::gcd(multiples.coeff, multiples.base));
    analyzer.bind(loop->var, loop->min, loop->extent);
  }
  structure.reduce.assign(structure.vars.size(), false);
  std::vector<bool> spatial(structure.vars.size(), false);
  VarMap bindings;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce) return std::nullopt;
    bindings[iter.var.get()] = iter.binding;
    for (size_t i = 0; i < structure.vars.size(); ++i)
      if (uses_var(iter.binding, structure.vars[i].get()))
        (iter.kind == IterKind::kReduce ? structure.reduce : spatial)[i] = true;
  }
  for (size_t i = 0; i < spatial.size(); ++i)
    if (spatial[i] && structure.reduce[i]) return std::nullopt;
  const auto in_loops = [&](const std::vector<Expr>& indices) {
    std::vector<Expr> result;
    for (const Expr& index : indices) result.push_back(analyzer.simplify(substitute(index, bindings)));
    return result;
  };

  structure.store = {store->buffer, in_loops(store->indices), {}, false};
  structure.store.strides = access_strides(*store->buffer, structure.store.indices, structure.vars, typical);
  std::vector<std::pair<const LoadNode*, bool>> loads;
  collect_loads(store->value, false, loads);
  for (const auto& [load, guarded] : loads) {
    if (load->buffer == store->buffer) continue;
    AccessPattern access{load->buffer, in_loops(load->indices), {}, guarded};
    const auto same = std::find_if(structure.loads.begin(), structure.loads.end(), [&](const AccessPattern& other) {
      return other.buffer == access.buffer &&
             std::equal(other.indices.begin(), other.indices.end(), access.indices.begin(),
                        [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
    });
    if (same != structure.loads.end()) {
      same->guarded |= guarded;
      continue;
    }
    access.strides = access_strides(*access.buffer, access.indices, structure.vars, typical);
    structure.loads.push_back(std::move(access));
  }
  if (const auto* sum = store->value.as<BinaryNode>(); sum && sum->op == BinaryOp::kAdd)
    for (const Expr& side : {sum->a, sum->b})
      if (const auto* product = side.as<BinaryNode>(); product && product->op == BinaryOp::kMul)
        structure.multiplies_two_loads = structure.loads.size() == 2;
  return structure;
}

bool is_matrix_product(const BlockStructure& s) {
  if (!s.multiplies_two_loads || s.loads.size() != 2) return false;
  const auto alone = [&](size_t one, size_t other) {
    for (size_t i = 0; i < s.n_iters(); ++i)
      if (!s.reduce[i] && s.extents[i] > 1 && s.loads[one].touches(i) && !s.loads[other].touches(i)) return true;
    return false;
  };
  return alone(0, 1) && alone(1, 0);
}

bool streams_rows(const BlockStructure& block, const Target& target) {
  if (!block.multiplies_two_loads) return false;
  const auto moves_with_all = [&](const AccessPattern& load) {
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (block.extents[i] > 1 && !load.touches(i)) return false;
    return true;
  };
  return std::ranges::count_if(block.loads, moves_with_all) == 1 &&
         block.points() * block.store.buffer->dtype.element_bytes() > cache_bytes(target, 1);
}

}  // namespace fettle
