#include "schedule/nest.h"

#include <algorithm>

#include "base/check.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"

namespace fettle {
namespace {

bool uses_any(const Expr& e, const std::vector<const VarNode*>& vars) {
  return std::ranges::any_of(vars, [&](const VarNode* var) { return uses_var(e, var); });
}

// The block that shows why iterations on which `vars` depend are not independent, or null.
const BlockNode* find_carrier(const Stmt& s, const std::vector<const VarNode*>& vars) {
  for (const BlockNode* block : blocks_under(s)) {
    std::vector<const VarNode*> inside;
    for (const IterVar& iter : block->iters) {
      if (!uses_any(iter.binding, vars)) continue;
      if (iter.kind != IterKind::kSpatial) return block;
      inside.push_back(iter.var.get());
    }
    if (inside.empty()) return block;
    if (const BlockNode* carrier = find_carrier(block->body, inside)) return carrier;
  }
  return nullptr;
}

}  // namespace

Stmt add_predicate(const Stmt& s, const Expr& predicate) {
  switch (s.kind()) {
    case StmtKind::kBlock:
      return with(*s.as<BlockNode>(), [&](BlockNode& b) { b.predicate = logical_and(b.predicate, predicate); });
    case StmtKind::kFor:
      return with(*s.as<ForNode>(), [&](ForNode& f) { f.body = add_predicate(f.body, predicate); });
    case StmtKind::kSeq: {
      std::vector<Stmt> stmts = s.as<SeqNode>()->stmts;
      for (Stmt& child : stmts) child = add_predicate(child, predicate);
      return seq(std::move(stmts));
    }
    default: return if_then(predicate, s);
  }
}

Analyzer analyzer_at(const Func& func, const StmtNode* node) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  for (const Stmt& s : path_to(func->body, node)) {
    if (s.get() == node) break;
    if (const auto* loop = s.as<ForNode>()) analyzer.bind(loop->var, loop->min, loop->extent);
    if (const auto* block = s.as<BlockNode>())
      for (const IterVar& iter : block->iters) analyzer.bind(iter.var, 0, iter.extent);
  }
  return analyzer;
}

Result<> check_plain(const Func& func, const ForNode& loop) {
  if (loop.loop_kind != ForKind::kSerial)
    return fail_at(ErrorCode::E201, func, &loop, "loop " + loop.var->name + " is not serial", {});
  if (!loop.annotations.entries.empty())
    return fail_at(ErrorCode::E201, func, &loop,
                   "loop " + loop.var->name + " is annotated with " + loop.annotations.entries.front().first, {});
  return {};
}

Result<> check_independent(const Func& func, const ForNode& loop) {
  if (const BlockNode* carrier = find_carrier(loop.body, {loop.var.get()}))
    return fail_at(ErrorCode::E210, func, carrier,
                   "iterations of loop " + loop.var->name + " of block " + carrier->name + " are not independent", {});
  return {};
}

Result<std::vector<const ForNode*>> loop_chain(const Schedule& s, const std::vector<LoopRef>& loops, bool adjacent) {
  std::vector<Stmt> wanted;
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(Stmt loop, s.loop(ref));
    if (std::ranges::find(wanted, loop) != wanted.end())
      return fail_at(ErrorCode::E207, s.func(), loop.get(), "loop " + loop.as<ForNode>()->var->name + " is given twice",
                     {});
    wanted.push_back(std::move(loop));
  }
  if (wanted.empty()) return fail(ErrorCode::E207, "no loops are given");
  // The outermost is the one from which a straight way down meets all others.
  for (const Stmt& top : wanted) {
    std::vector<const ForNode*> chain;
    size_t found = 0;
    for (const ForNode* at = top.as<ForNode>(); at; at = at->body.as<ForNode>()) {
      const bool is_wanted = std::ranges::any_of(wanted, [&](const Stmt& w) { return w.get() == at; });
      if (!is_wanted && adjacent) break;
      chain.push_back(at);
      if (is_wanted && ++found == wanted.size()) return chain;
    }
  }
  return fail_at(ErrorCode::E207, s.func(), wanted.front().get(),
                 adjacent ? "the loops are not directly nested" : "the loops are not on one path without branches", {});
}

Result<Applied> with_loop_kind(const Schedule& s, LoopRef ref, ForKind kind, bool constant, bool independent) {
  FETTLE_TRY(const Stmt stmt, s.loop(ref));
  const ForNode& loop = *stmt.as<ForNode>();
  if (loop.loop_kind != ForKind::kSerial)
    return fail_at(ErrorCode::E201, s.func(), &loop, "loop " + loop.var->name + " is not serial", {});
  if (constant && !as_int(loop.extent))
    return fail_at(ErrorCode::E221, s.func(), &loop, "the extent of loop " + loop.var->name + " is not a constant", {});
  if (independent) FETTLE_TRY_VOID(check_independent(s.func(), loop));
  return Applied{replace_in(s.func(), &loop, with(loop, [&](ForNode& f) { f.loop_kind = kind; })), {}};
}

}  // namespace fettle
