#include "schedule/reduction_pattern.h"

#include <algorithm>
#include <limits>

#include "ir/compare.h"
#include "schedule/dataflow.h"

namespace fettle {
namespace {

bool is_load_of(const Expr& e, const StoreNode& store) {
  const auto* load = e.as<LoadNode>();
  return load && load->buffer == store.buffer && !load->mask &&
         std::ranges::equal(load->indices, store.indices,
                            [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
}

bool is_neutral(const Expr& e, BinaryOp op, DType dtype) {
  double value;
  if (const auto* real = e.as<FloatImmNode>())
    value = real->value;
  else if (const int64_t* integer = as_int(e))
    value = static_cast<double>(*integer);
  else
    return false;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case BinaryOp::kAdd:
      return value == 0;
    case BinaryOp::kMul:
      return value == 1;
    case BinaryOp::kMin:
      return dtype.is_float() && value == infinity;
    case BinaryOp::kMax:
      return dtype.is_float() && value == -infinity;
    default:
      return false;
  }
}

}  // namespace

tl::unexpected<Diagnostic> pattern_differs(std::string why) { return fail(ErrorCode::E228, std::move(why)); }

Result<ReductionPattern> match_reduction(const Func& func, const BlockNode& block) {
  ReductionPattern m;
  m.loops = loops_around(func, &block);
  if (block.predicate) return pattern_differs("the block has a predicate");
  if (m.loops.size() != block.iters.size()) return pattern_differs("loops and iterators differ in number");
  std::vector<bool> bound(m.loops.size(), false);
  int reductions = 0;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    const auto loop =
        std::ranges::find_if(m.loops, [&](const ForNode* l) { return l->var.get() == iter.binding.get(); });
    if (loop == m.loops.end() || bound[static_cast<size_t>(loop - m.loops.begin())] || !is_zero((*loop)->min) ||
        !structural_equal((*loop)->extent, iter.extent))
      return pattern_differs("iterator " + iter.var->name + " is not bound to a loop of its own");
    bound[static_cast<size_t>(loop - m.loops.begin())] = true;
    if (iter.kind == IterKind::kReduce) {
      ++reductions;
      m.reduce = i;
    } else if (iter.kind != IterKind::kSpatial) {
      return pattern_differs("an iterator is neither spatial nor reduce");
    }
  }
  if (reductions != 1) return pattern_differs("it takes one reduce iterator");
  if (!as_int(block.iters[m.reduce].extent)) return pattern_differs("the reduction's extent is not a constant");
  for (size_t i = 0; i < m.loops.size(); ++i) {
    const StmtNode* inside = i + 1 < m.loops.size() ? static_cast<const StmtNode*>(m.loops[i + 1]) : &block;
    if (m.loops[i]->body.get() != inside) return pattern_differs("the nest is not perfect");
  }
  m.init = block.init ? block.init.as<StoreNode>() : nullptr;
  m.update = single_store(block);
  if (!m.init || !m.update || m.init->mask || m.update->mask) return pattern_differs("init and body must be one store each");
  m.combine = m.update->value.as<BinaryNode>();
  if (!m.combine) return pattern_differs("the update is not C = C op f");
  if (is_load_of(m.combine->a, *m.update))
    m.term = m.combine->b;
  else if (is_load_of(m.combine->b, *m.update))
    m.term = m.combine->a;
  else
    return pattern_differs("the update is not C = C op f");
  if (!is_neutral(m.init->value, m.combine->op, m.update->buffer->dtype))
    return pattern_differs("the init is not the neutral element of the update's operation");
  return m;
}

Stmt fresh_nest(Ref<BlockNode> block, const std::vector<size_t>& order) {
  std::vector<Var> vars;
  for (IterVar& iter : block->iters) {
    const std::string& name = iter.var->name;
    vars.push_back(make_var(name.size() > 1 && name[0] == 'v' ? name.substr(1) : name + "_loop", iter.var->dtype));
    iter.binding = vars.back();
  }
  const std::vector<IterVar> iters = block->iters;
  Stmt nest = block;
  for (size_t k = order.size(); k-- > 0;) nest = make_for(vars[order[k]], 0, iters[order[k]].extent, nest);
  return nest;
}

Region point_region(const Buffer& buffer, const std::vector<Expr>& indices) {
  Region region{buffer, {}};
  for (const Expr& index : indices) region.ranges.push_back({index, 1});
  return region;
}

}  // namespace fettle
