#include "schedule/primitives/fuse.h"

#include "schedule/edit/edit_in_place.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_fuse(const Schedule& s, const FuseArgs& args) {
  FETTLE_TRY(const std::vector<const ForNode*> chain, loop_chain(s, args.loops, /*adjacent=*/true));
  for (size_t i = 0; i < chain.size(); ++i) {
    const ForNode& loop = *chain[i];
    FETTLE_TRY_VOID(check_plain(s.func(), loop));
    FETTLE_TRY(const Var given, s.loop_var(args.loops[i]));
    if (given != loop.var) return refused(ErrorCode::E207, s.func(), &loop, "the loops are not given outermost first");
    for (size_t outer = 0; outer < i; ++outer)
      if (uses_var(loop.min, chain[outer]->var.get()) || uses_var(loop.extent, chain[outer]->var.get()))
        return refused(ErrorCode::E208, s.func(), &loop, "the bounds of loop {} depend on loop {}", loop.var->name,
                       chain[outer]->var->name);
  }
  if (chain.size() == 1) return Applied{s.func(), {chain.front()->var}};

  std::string name;
  Expr extent = 1;
  Tail tail = Tail::kExact;
  for (const ForNode* loop : chain) {
    name += (name.empty() ? "" : "_") + loop->var->name;
    extent = extent * loop->extent;
    if (tail == Tail::kExact) tail = loop->tail;
  }
  Analyzer analyzer = analyzer_at(s.func(), chain.front());
  const Var fused = make_var(name, chain.front()->var->dtype);
  extent = analyzer.simplify(extent);
  analyzer.bind(fused, 0, extent);
  VarMap values;
  Expr inside = 1;  // iterations of the loops further in
  for (size_t i = chain.size(); i-- > 0;) {
    const Expr quotient = floordiv(fused, inside);
    const Expr index = i == 0 ? quotient : floormod(quotient, chain[i]->extent);
    values[chain[i]->var.get()] = chain[i]->min + index;
    inside = inside * chain[i]->extent;
  }
  auto loop = make_ref<ForNode>(fused, Expr(0), extent, substitute_loops(chain.back()->body, values, analyzer));
  loop->tail = tail;
  return Applied{replace_last(s, chain.front(), Stmt(loop)), {fused}};
}

}  // namespace

extern constinit const PrimitiveDef fuse_def = define_primitive<FuseArgs, apply_fuse>("fuse", 1);

Result<LoopRef> fuse(Schedule& s, const FuseArgs& args) { return run<LoopRef>(s, fuse_def, args); }

}  // namespace fettle
