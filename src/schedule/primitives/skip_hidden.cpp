#include "schedule/primitives/skip_hidden.h"

#include <algorithm>
#include <cmath>

#include "analysis/sites.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"
#include "schedule/reformulation.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// What is at most 0 where an element counts: conjuncts a <= b and a < b of a selection between it and -inf.
void collect_limits(const Expr& term, std::vector<Expr>& limits) {
  const auto* choice = term.as<SelectNode>();
  const auto* other = choice ? choice->if_false.as<FloatImmNode>() : nullptr;
  if (!other || !std::isinf(other->value) || other->value > 0) return;
  for (const Expr& conjunct : conjuncts(choice->condition)) {
    const auto* compared = conjunct.as<BinaryNode>();
    if (!compared || compared->a.dtype() != kI64) continue;
    if (compared->op == BinaryOp::kLe) limits.push_back(compared->a - compared->b);
    if (compared->op == BinaryOp::kLt) limits.push_back(compared->a - compared->b + 1);
  }
  collect_limits(choice->if_true, limits);
}

std::vector<Expr> limits_of(const BlockNode& maximum) {
  const auto* combine = single_store(maximum)->value.as<BinaryNode>();
  std::vector<Expr> limits;
  for (const Expr& term : {combine->a, combine->b}) collect_limits(term, limits);
  return limits;
}

// The one that the mask is in, where a maximum is taken in parts.
const BlockNode* find_maximum(const Stmt& body) {
  const BlockNode* found = nullptr;
  for (const BlockNode* block : blocks_under(body)) {
    const StoreNode* update = part_of(*block).empty() ? nullptr : single_store(*block);
    const auto* combine = update ? update->value.as<BinaryNode>() : nullptr;
    const bool reduces =
        std::ranges::any_of(block->iters, [](const IterVar& i) { return i.kind == IterKind::kReduce; });
    if (combine && is_maximum(combine->op) && reduces && (!found || limits_of(*found).empty())) found = block;
  }
  return found;
}

// How many iterations of `loop` some instance of the block counts in; null where `limit` does not tell.
Expr iterations(const Func& func, const ForNode& loop, const BlockNode& block, const Expr& limit) {
  const VarMap bindings = binding_map(block);
  Analyzer analyzer = analyzer_at(func, &block);
  LinearForm form = linear_form(analyzer.simplify(substitute(limit, bindings)));
  const int64_t step = form.coeff_of(loop.var);
  if (step <= 0) return nullptr;
  form.add_term(loop.var, -step);
  // The least that it is over all loops inside, and over the threads of a block, which go on together.
  const std::vector<const ForNode*> around = loops_around(func, &block);
  const auto begin = std::ranges::find(around, &loop);
  for (auto inner = around.begin(); inner != around.end(); ++inner) {
    if (inner == begin || (inner < begin && !is_block_thread_axis((*inner)->thread_axis))) continue;
    const int64_t coeff = form.coeff_of((*inner)->var);
    form.add_term((*inner)->var, -coeff);
    const Expr at = coeff > 0 ? (*inner)->min : (*inner)->min + (*inner)->extent - 1;
    if (coeff != 0) form.add(linear_form(analyzer.simplify(at)), coeff);
  }
  const Expr rest = to_expr(form);
  for (auto inner = begin; inner != around.end(); ++inner)
    if (uses_var(rest, (*inner)->var.get())) return nullptr;
  return floordiv(Expr(0) - rest, Expr(step)) + 1;
}

Result<Applied> apply_skip_hidden(const Schedule& s, const SkipHiddenArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const ForNode& loop = *stmt.as<ForNode>();
  FETTLE_TRY_VOID(check_plain(s.func(), loop));
  const BlockNode* maximum = find_maximum(loop.body);
  if (!maximum || !is_zero(loop.min))
    return refused(ErrorCode::E207, s.func(), &loop, "loop {} holds no maximum of an online reduction", loop.var->name);
  const BlockNode* scope = enclosing_block(s.func(), &loop);
  const std::vector<const BlockNode*> inside = blocks_under(loop.body);
  for (const BlockNode* block : inside) {
    const bool is_state =
        part_of(*block) == part_of(*maximum) && std::ranges::any_of(block->iters, [&](const IterVar& iter) {
          return iter.kind == IterKind::kScan && iter.binding.get() == loop.var.get();
        });
    for (const Region& write : block->writes) {
      const std::vector<const BlockNode*> readers = consumers_of(*scope, write.buffer.get());
      const bool stays = std::ranges::all_of(
          readers, [&](const BlockNode* reader) { return std::ranges::find(inside, reader) != inside.end(); });
      if (!is_state && (!stays || is_param(s.func(), write.buffer.get())))
        return refused(ErrorCode::E207, s.func(), block, "block {} is read behind loop {}, and is no state",
                       block->name, loop.var->name);
    }
  }
  Expr extent;
  for (const Expr& limit : limits_of(*maximum))
    if (const Expr count = iterations(s.func(), loop, *maximum, limit)) extent = extent ? min(extent, count) : count;
  if (!extent)
    return refused(ErrorCode::E216, s.func(), maximum, "the mask of block {} does not end what is seen", maximum->name);
  Analyzer analyzer = analyzer_at(s.func(), &loop);
  const Expr shorter = analyzer.simplify(min(loop.extent, max(extent, Expr(1))));
  return Applied{replace_in(s.func(), &loop, with(loop, [&](ForNode& f) { f.extent = shorter; })), {}};
}

}  // namespace

extern constinit const PrimitiveDef skip_hidden_def =
    define_primitive<SkipHiddenArgs, apply_skip_hidden>("skip_hidden", 1);

Result<> skip_hidden(Schedule& s, const SkipHiddenArgs& args) { return run<void>(s, skip_hidden_def, args); }

}  // namespace fettle
