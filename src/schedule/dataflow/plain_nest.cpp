#include "schedule/dataflow/plain_nest.h"

#include <algorithm>

#include "ir/compare.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {

Result<PlainNest> plain_nest(const Func& func, const BlockNode& block) {
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E207, func, &block, "block {}: {}", block.name, why);
  };
  const std::vector<const ForNode*> around = loops_around(func, &block);
  if (block.predicate) return refuse("it has a predicate");
  if (around.empty() || around.size() != block.iters.size()) return refuse("loops and iterators differ in number");
  for (size_t i = 0; i < around.size(); ++i) {
    FETTLE_TRY_VOID(check_plain(func, *around[i]));
    const StmtNode* inside = i + 1 < around.size() ? static_cast<const StmtNode*>(around[i + 1]) : &block;
    if (around[i]->body.get() != inside) return refuse("something stands between its loops");
  }
  PlainNest nest;
  nest.top = around.front();
  for (const IterVar& iter : block.iters) {
    const ForNode* loop = loop_of(around, iter.binding.get());
    if (!loop || !is_zero(loop->min) || !structural_equal(loop->extent, iter.extent) ||
        std::ranges::find(nest.loops, loop) != nest.loops.end())
      return refuse(fmt::format("iterator {} has no loop of its own", iter.var->name));
    nest.loops.push_back(loop);
  }
  return nest;
}

namespace {

// vi → i, v0 → ax0, x → x_loop
std::string loop_name(const std::string& iter) {
  if (iter.size() < 2 || iter[0] != 'v') return iter + "_loop";
  const bool digit = iter[1] >= '0' && iter[1] <= '9';
  return (digit ? "ax" : "") + iter.substr(1);
}

}  // namespace

Stmt fresh_nest(Ref<BlockNode> block, const std::vector<size_t>& order) {
  std::vector<Var> vars;
  for (IterVar& iter : block->iters) {
    vars.push_back(make_var(loop_name(iter.var->name), iter.var->dtype));
    iter.binding = vars.back();
  }
  const std::vector<IterVar> iters = block->iters;
  Stmt nest = block;
  for (size_t k = order.size(); k-- > 0;) nest = make_for(vars[order[k]], 0, iters[order[k]].extent, nest);
  return nest;
}

Stmt fresh_nest(Ref<BlockNode> block) {
  std::vector<size_t> order(block->iters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return fresh_nest(std::move(block), order);
}

Region point_region(const Buffer& buffer, const std::vector<Expr>& indices) {
  Region region{buffer, {}};
  for (size_t d = 0; d < indices.size(); ++d)
    region.ranges.push_back(reads_memory(indices[d]) ? Range{0, buffer->shape[d]} : Range{indices[d], 1});
  return region;
}

}  // namespace fettle
