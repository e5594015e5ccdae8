#include "schedule/edit/nest.h"

#include <algorithm>

#include "analysis/parallel_check.h"
#include "base/checks.h"
#include "ir/path.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit_in_place.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The block beneath `loop` none of whose iterators but those of a reduction depends on it: all iterations write the
// same elements. Null if there is none.
const BlockNode* find_repeated(const ForNode& loop) {
  for (const BlockNode* block : blocks_under(loop.body))
    if (!moves_with(*block, IterKind::kSpatial, loop) && !moves_with(*block, IterKind::kScan, loop) &&
        !moves_with(*block, IterKind::kOpaque, loop))
      return block;
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
    default:
      return if_then(predicate, s);
  }
}

Analyzer analyzer_at(const Func& func, const StmtNode* node) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  SmallVector<const StmtNode*, 24> around;
  walk_up(func->body, node, [&](const Stmt& s) {
    if (s.get() != node) around.push_back(s.get());
  });
  for (size_t i = around.size(); i-- > 0;) {
    if (around[i]->kind == StmtKind::kFor) {
      const auto* loop = static_cast<const ForNode*>(around[i]);
      analyzer.bind(loop->var, loop->min, loop->extent);
    } else if (around[i]->kind == StmtKind::kBlock) {
      for (const IterVar& iter : static_cast<const BlockNode*>(around[i])->iters)
        analyzer.bind(iter.var, 0, iter.extent);
    }
  }
  return analyzer;
}

Result<> check_plain(const Func& func, const ForNode& loop) {
  if (loop.loop_kind != ForKind::kSerial)
    return refused(ErrorCode::E201, func, &loop, "loop {} is not serial", loop.var->name);
  if (!loop.annotations.entries.empty())
    return refused(ErrorCode::E201, func, &loop, "loop {} is annotated with {}", loop.var->name,
                   loop.annotations.entries.front().first);
  return {};
}

Result<std::vector<const ForNode*>> loop_chain(const Schedule& s, const std::vector<LoopRef>& loops, bool adjacent) {
  std::vector<Stmt> wanted;
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(Stmt loop, s.loop(ref));
    if (std::ranges::find(wanted, loop) != wanted.end())
      return refused(ErrorCode::E207, s.func(), loop.get(), "loop {} is given twice", loop.as<ForNode>()->var->name);
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
  return refused(ErrorCode::E207, s.func(), wanted.front().get(), "the loops are not {}",
                 adjacent ? "directly nested" : "on one path without branches");
}

Result<Applied> with_loop_kind(const Schedule& s, LoopRef ref, ForKind kind, bool constant, bool independent) {
  FETTLE_TRY(const Stmt stmt, s.loop(ref));
  const ForNode& loop = *stmt.as<ForNode>();
  if (loop.loop_kind != ForKind::kSerial)
    return refused(ErrorCode::E201, s.func(), &loop, "loop {} is not serial", loop.var->name);
  if (constant && !as_int(loop.extent))
    return refused(ErrorCode::E221, s.func(), &loop, "the extent of loop {} is not a constant", loop.var->name);
  if (independent) {
    if (auto checked = check_parallel(s.func(), loop); !checked)
      return refused(checked.error().code, s.func(), &loop, "loop {}: {}", loop.var->name, checked.error().message);
  }
  if (kind == ForKind::kVectorized) {
    if (const BlockNode* block = find_repeated(loop); block && checks("races"))
      return refused(ErrorCode::E210, s.func(), block, "all lanes of loop {} would write the same elements of block {}",
                     loop.var->name, block->name);
  }
  return Applied{replace_last(s, &loop, with(loop, [&](ForNode& f) { f.loop_kind = kind; })), {}};
}

}  // namespace fettle
