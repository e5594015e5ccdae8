#include "schedule/primitives/compute_inline.h"

#include <algorithm>

#include "base/checks.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_compute_inline(const Schedule& s, const ComputeInlineArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto* block = stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(func, block);
  FETTLE_TRY_VOID(check_inlinable(func, block, scope));
  const StoreNode* target = single_store(*block);
  const BufferNode* buffer = target->buffer.get();
  if (is_param(func, buffer)) return refused(ErrorCode::E213, func, block, "{} is an output", buffer->name);
  if (takes_address(scope->body, buffer)) return not_inlinable(func, block, "an address of its output is taken");

  const std::vector<const BlockNode*> readers = consumers_of(*scope, buffer);
  if (readers.empty()) return not_inlinable(func, block, "nothing reads it");
  const std::vector<const BlockNode*> order = blocks_of(*scope);
  const auto own = std::ranges::find(order, block);
  for (const Region& read : block->reads)
    for (const BlockNode* writer : producers_of(*scope, read.buffer.get()))
      if (std::ranges::find(order, writer) > own && checks("compute_inline.overwritten"))
        return refused(ErrorCode::E227, func, writer, "{} is overwritten", read.buffer->name);

  Func result = func;
  for (const BlockNode* reader : readers) {
    if (!blocks_under(reader->body).empty())
      return not_inlinable(func, block, fmt::format("its reader {} has blocks inside", reader->name));
    if (const ForNode* loop = must_stay_below(func, *block, reader); loop && checks("must_stay_below"))
      return not_inlinable(func, block,
                           fmt::format("it reads what each iteration of loop {} makes anew", loop->var->name));
    Analyzer analyzer = analyzer_in(func, *reader);
    bool solved_all = true;
    const LoadValue value = [&](const std::vector<Expr>& indices) -> Expr {
      const auto solved = solve(block->iters, target->indices, indices, analyzer);
      if (!solved) {
        solved_all = false;
        return load(target->buffer, indices);
      }
      return analyzer.simplify(substitute(target->value, *solved));
    };
    auto fresh = make_ref<BlockNode>(*reader);
    fresh->init = replace_loads(reader->init, buffer, value);
    fresh->body = replace_loads(reader->body, buffer, value);
    if (!solved_all)
      return not_inlinable(
          func, block, fmt::format("its indices do not determine its iterators as block {} reads them", reader->name));
    infer_regions(*fresh, analyzer);
    result = replace_in(result, reader, fresh);
  }
  result = replace_in(result, find_block(result->body, block->name), nullptr);
  return Applied{edit_scope(result, scope->name, {.release = {buffer}}), {}};
}

}  // namespace

extern constinit const PrimitiveDef compute_inline_def =
    define_primitive<ComputeInlineArgs, apply_compute_inline>("compute_inline", 1);

Result<> compute_inline(Schedule& s, const ComputeInlineArgs& args) { return run<void>(s, compute_inline_def, args); }

}  // namespace fettle
