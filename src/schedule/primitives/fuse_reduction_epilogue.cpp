#include "schedule/primitives/fuse_reduction_epilogue.h"

#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_fuse_reduction_epilogue(const Schedule& s, const FuseReductionEpilogueArgs& args) {
  FETTLE_TRY(const Stmt reduction_stmt, s.block(args.block));
  FETTLE_TRY(const Stmt epilogue_stmt, s.block(args.epilogue_block));
  const Func& func = s.func();
  const auto& reduction = *reduction_stmt.as<BlockNode>();
  const auto& epilogue = *epilogue_stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(func, &reduction);
  if (!scope || !is_reduction(reduction, *scope))
    return refused(ErrorCode::E212, func, &reduction, "block {}", reduction.name);
  FETTLE_TRY(const Combiner combiner, match_combiner(func, reduction));
  const Buffer between = combiner.update->buffer;
  if (is_param(func, between.get()))
    return refused(ErrorCode::E213, func, &reduction, "{} is an output", between->name);

  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E214, func, &epilogue, "block {}: {}", epilogue.name, why);
  };
  if (enclosing_block(func, &epilogue) != scope) return refuse("it is in another block");
  if (const std::string why = why_not_inlinable(func, epilogue, *scope, false); !why.empty()) return refuse(why);
  const std::vector<const BlockNode*> readers = consumers_of(*scope, between.get());
  if (readers.size() != 1 || readers.front() != &epilogue)
    return refuse(fmt::format("it is not the only reader of {}", between->name));
  const StoreNode& output = *single_store(epilogue);
  const auto* combine = output.value.as<BinaryNode>();
  const auto reads_between = [&](const Expr& e) { return !loads_of(evaluate(e), between.get()).empty(); };
  if (!combine || combine->op != combiner.op || reads_between(combine->a) == reads_between(combine->b))
    return refuse(fmt::format("it does not combine {} with something else as the reduction does", between->name));
  const bool left = reads_between(combine->a);
  // The other operand becomes what the reduction begins with: only at its place it says the same of NaN.
  if (!left && combiner.op == BinaryOp::kOrderedMax)
    return refuse(fmt::format("{} is not the first operand of ordered_max", between->name));
  const auto* result = (left ? combine->a : combine->b).as<LoadNode>();
  const Expr& other = left ? combine->b : combine->a;
  if (!result || !(output.buffer->dtype == between->dtype))
    return refuse(fmt::format("it changes {} before it combines it", between->name));
  Analyzer analyzer = analyzer_in(func, reduction);
  const auto solved = solve(epilogue.iters, result->indices, combiner.update->indices, analyzer);
  if (!solved || !one_to_one(epilogue, reduction, *solved, analyzer))
    return refuse(fmt::format("it is not elementwise on all of {}", between->name));
  FETTLE_TRY_VOID(check_others_ready(func, *scope, &epilogue, &reduction));

  const auto moved = [&](const Expr& e) { return analyzer.simplify(substitute(e, *solved)); };
  std::vector<Expr> indices = output.indices;
  for (Expr& index : indices) index = moved(index);
  auto fresh = make_ref<BlockNode>(reduction);
  fresh->init = store(output.buffer, indices, moved(other));
  fresh->body = store(output.buffer, indices, accumulated(combiner.op, load(output.buffer, indices), combiner.term));
  infer_regions(*fresh, analyzer);
  Func fused = replace_in(func, &reduction, fresh);
  fused = replace_in(fused, find_block(fused->body, epilogue.name), nullptr);
  return Applied{edit_scope(fused, scope->name, {.release = {between.get()}}), {}};
}

}  // namespace

extern constinit const PrimitiveDef fuse_reduction_epilogue_def =
    define_primitive<FuseReductionEpilogueArgs, apply_fuse_reduction_epilogue>("fuse_reduction_epilogue", 1);

Result<> fuse_reduction_epilogue(Schedule& s, const FuseReductionEpilogueArgs& args) {
  return run<void>(s, fuse_reduction_epilogue_def, args);
}

}  // namespace fettle
