#include "schedule/reformulate/reduction_pattern.h"

#include <algorithm>

#include "ir/compare.h"
#include "schedule/dataflow/combiner.h"

namespace fettle {

tl::unexpected<Diagnostic> pattern_differs(std::string why) { return fail(ErrorCode::E228, std::move(why)); }

Result<ReductionPattern> match_reduction(const Func& func, const BlockNode& block, bool several) {
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
  if (reductions == 0 || (reductions > 1 && !several)) return pattern_differs("it takes one reduce iterator");
  if (!as_int(block.iters[m.reduce].extent)) return pattern_differs("the reduction's extent is not a constant");
  for (size_t i = 0; i < m.loops.size(); ++i) {
    const StmtNode* inside = i + 1 < m.loops.size() ? static_cast<const StmtNode*>(m.loops[i + 1]) : &block;
    if (m.loops[i]->body.get() != inside) return pattern_differs("the nest is not perfect");
  }
  auto combiner = match_combiner(func, block);
  if (!combiner) return pattern_differs(combiner.error().message);
  m.init = combiner->init;
  m.update = combiner->update;
  m.combine = m.update->value.as<BinaryNode>();
  m.term = combiner->term;
  return m;
}

}  // namespace fettle
