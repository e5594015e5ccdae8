#include "schedule/reformulate/reduction_pattern.h"

#include "schedule/dataflow/dataflow.h"

namespace fettle {

tl::unexpected<Diagnostic> pattern_differs(std::string why) { return fail(ErrorCode::E228, std::move(why)); }

Result<PlainReduction> plain_reduction(const Func& func, const BlockNode& block) {
  const BlockNode* scope = enclosing_block(func, &block);
  if (!scope || !is_reduction(block, *scope)) return pattern_differs("the block is no reduction");
  auto nest = plain_nest(func, block);
  if (!nest) return pattern_differs(nest.error().message);
  auto combiner = match_combiner(func, block);
  if (!combiner) return pattern_differs(combiner.error().message);
  return PlainReduction{std::move(*nest), std::move(*combiner)};
}

Result<ReductionPattern> match_reduction(const Func& func, const BlockNode& block, bool several, bool open) {
  ReductionPattern m;
  m.loops = loops_around(func, &block);
  if (auto nest = plain_nest(func, block); !nest) return pattern_differs(nest.error().message);
  int reductions = 0;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (block.iters[i].kind == IterKind::kReduce) {
      ++reductions;
      m.reduce = i;
    } else if (block.iters[i].kind != IterKind::kSpatial) {
      return pattern_differs("an iterator is neither spatial nor reduce");
    }
  }
  if (reductions == 0 || (reductions > 1 && !several)) return pattern_differs("it takes one reduce iterator");
  if (!open && !as_int(block.iters[m.reduce].extent))
    return pattern_differs("the reduction's extent is not a constant");
  auto combiner = match_combiner(func, block);
  if (!combiner) return pattern_differs(combiner.error().message);
  m.init = combiner->init;
  m.update = combiner->update;
  m.combine = m.update->value.as<BinaryNode>();
  m.term = combiner->term;
  return m;
}

}  // namespace fettle
