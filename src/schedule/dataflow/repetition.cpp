#include "schedule/dataflow/repetition.h"

#include <algorithm>

#include "analysis/sites.h"
#include "arith/affine_map.h"
#include "arith/plain_map.h"
#include "ir/compare.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// What is left of a sum without what `loops` do not change: a value of it tells one of `e`, and the other way round.
Expr changing_part(const Expr& e, const std::vector<const ForNode*>& loops) {
  Analyzer analyzer;
  LinearForm form = analyzer.linear(e);
  form.constant = 0;
  erase_if(form.terms, [&](const LinearTerm& term) { return !uses_any(term.expr, loops); });
  return form.terms.size() == 1 ? form.terms.front().expr : analyzer.to_expr(form);
}

// Those of `loops` that the values of `bindings` do not tell by themselves, as those of i + outer do, or of
// (i + outer) // 7 and (i + outer) % 7. Bounds and conditions are not looked at.
std::vector<const ForNode*> untold(std::vector<const ForNode*> loops, const std::vector<Expr>& bindings) {
  std::vector<Expr> values = bindings;
  for (size_t i = 0; i < values.size(); ++i) {
    const Expr value = changing_part(values[i], loops);
    const size_t before = loops.size();
    std::erase_if(loops, [&](const ForNode* loop) { return loop->var.get() == value.get(); });
    const auto* quotient = value.as<BinaryNode>();
    if (quotient && quotient->op == BinaryOp::kFloorDiv)
      for (const Expr& other : bindings) {
        const Expr candidate = changing_part(other, loops);
        const auto* rest = candidate.as<BinaryNode>();
        if (rest && rest->op == BinaryOp::kFloorMod && structural_equal(rest->a, quotient->a) &&
            structural_equal(rest->b, quotient->b))
          values.push_back(quotient->a);
      }
    if (loops.size() == before) continue;
    values = bindings;  // with a loop less to change, more may be told
    i = static_cast<size_t>(-1);
  }
  return loops;
}

// Whether a value of `e` tells those of the loops in it: i, or i_0 * 8 + i_1 with i_1 below 8, and so on. Adds these.
bool tells(const Expr& e, const std::vector<const ForNode*>& loops, std::vector<const VarNode*>& told) {
  const ExprNode* last = e.get();
  if (const auto* sum = e.as<BinaryNode>(); sum && sum->op == BinaryOp::kAdd) {
    last = sum->b.get();
    const auto* tiles = sum->a.as<BinaryNode>();
    const int64_t* size = tiles && tiles->op == BinaryOp::kMul ? as_int(tiles->b) : nullptr;
    const ForNode* loop = loop_of(loops, last);
    const int64_t* extent = loop && is_zero(loop->min) ? as_int(loop->extent) : nullptr;
    if (!size || !extent || *extent > *size || !tells(tiles->a, loops, told)) return false;
  } else if (e.kind() != ExprKind::kVar) {
    return false;
  }
  told.push_back(static_cast<const VarNode*>(last));
  return true;
}

}  // namespace

bool runs_once(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& loops) {
  std::vector<const VarNode*> told;
  for (const IterVar& iter : block.iters) tells(iter.binding, loops, told);
  if (std::ranges::all_of(loops, [&](const ForNode* l) {
        return is_one(l->extent) || std::ranges::find(told, l->var.get()) != told.end();
      }))
    return true;
  const auto [bindings, extents] = iter_lists(block);
  PlainLoops plain_loops;
  if (const auto map =
          add_plain_loops(plain_loops, loops) ? plain_map(bindings, plain_loops, block.predicate) : std::nullopt;
      map && map->injective)
    return true;
  std::vector<VarDomain> domains;
  for (const ForNode* loop : untold(loops, bindings))
    if (!is_one(loop->extent)) domains.push_back({loop->var, {loop->min, loop->extent}});
  if (domains.empty()) return true;
  Analyzer analyzer = analyzer_over(func, loops_around(func, &block));
  return detect_affine_map(bindings, extents, domains, block.predicate, analyzer).injective;
}

namespace {

// `above`: buffers that are being asked for.
bool changes_with(const Func& func, const BufferNode* buffer, const ForNode* loop,
                  std::vector<const BufferNode*> above) {
  if (std::ranges::find(above, buffer) != above.end()) return true;
  above.push_back(buffer);
  for (const BlockNode* writer : blocks_under(loop->body)) {
    const Region* region = write_region(*writer, buffer);
    if (!region) continue;
    bool own = false;  // elements of each iteration
    for (const IterVar& iter : writer->iters) {
      if (!uses_var(iter.binding, loop->var.get())) continue;
      const bool tells =
          std::ranges::any_of(region->ranges, [&](const Range& r) { return uses_var(r.min, iter.var.get()); });
      if (!tells && !is_one(iter.extent)) return true;
      own |= tells;
    }
    if (own) {
      std::vector<const ForNode*> loops = loops_between(loop->body, writer);
      loops.insert(loops.begin(), loop);
      if (runs_once(func, *writer, loops)) continue;
    }
    for (const Region& read : writer->reads)
      if (changes_with(func, read.buffer.get(), loop, above)) return true;
  }
  return false;
}

}  // namespace

bool changes_with(const Func& func, const BufferNode* buffer, const ForNode* loop) {
  return changes_with(func, buffer, loop, {});
}

const ForNode* must_stay_below(const Func& func, const BlockNode& block, const StmtNode* place) {
  const std::vector<const ForNode*> around = loops_around(func, &block);
  if (around.empty() || blocks_under(around.front()->body).size() == 1) return nullptr;  // nothing is made there
  const std::vector<const ForNode*> kept = loops_around(func, place);
  for (const ForNode* loop : around) {
    if (loop == place || std::ranges::find(kept, loop) != kept.end()) continue;
    for (const Region& read : block.reads)
      if (changes_with(func, read.buffer.get(), loop)) return loop;
  }
  return nullptr;
}

}  // namespace fettle
