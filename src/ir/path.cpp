// Finding statements in a tree, and putting others in their place.

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"
#include "ir/path.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// fn(child) for each statement directly below, until one gives true; whether one did.
template <class Fn>
bool any_stmt_below(const Stmt& s, Fn fn) {
  switch (s.kind()) {
    case StmtKind::kFor:
      return fn(s.as<ForNode>()->body);
    case StmtKind::kSeq:
      return std::ranges::any_of(s.as<SeqNode>()->stmts, fn);
    case StmtKind::kIf:
      return fn(s.as<IfNode>()->then_body) || fn(s.as<IfNode>()->else_body);
    case StmtKind::kLet:
      return fn(s.as<LetNode>()->body);
    case StmtKind::kBlock:
      return fn(s.as<BlockNode>()->init) || fn(s.as<BlockNode>()->body);
    case StmtKind::kAllocate:
      return fn(s.as<AllocateNode>()->body);
    case StmtKind::kWhile:
      return fn(s.as<WhileNode>()->body);
    case StmtKind::kAsync:
      return fn(s.as<AsyncNode>()->body);
    case StmtKind::kStore:
    case StmtKind::kEvaluate:
    case StmtKind::kCallFunc:
      return false;
  }
  FETTLE_UNREACHABLE();
}

bool climb(const Stmt& s, const StmtNode* target, const FunctionRef<void(const Stmt&)>& fn) {
  if (!s) return false;
  if (s.get() != target && !any_stmt_below(s, [&](const Stmt& child) { return climb(child, target, fn); }))
    return false;
  fn(s);
  return true;
}

// The copy of `parent` in which the child `from` is `to` (null: removed).
Stmt with_child(const Stmt& parent, const StmtNode* from, const Stmt& to) {
  const auto swap = [&](Stmt& child) {
    if (child.get() == from) child = to;
  };
  switch (parent.kind()) {
    case StmtKind::kFor:
      if (!to) return nullptr;
      return with(*parent.as<ForNode>(), [&](ForNode& n) { swap(n.body); });
    case StmtKind::kSeq: {
      std::vector<Stmt> stmts = parent.as<SeqNode>()->stmts;
      for (Stmt& child : stmts) swap(child);
      return seq(std::move(stmts));
    }
    case StmtKind::kIf: {
      const auto* n = parent.as<IfNode>();
      Stmt then_body = n->then_body, else_body = n->else_body;
      swap(then_body);
      swap(else_body);
      if (!then_body && !else_body) return nullptr;
      if (!then_body) return if_then(logical_not(n->condition), else_body);
      return if_then(n->condition, then_body, else_body);
    }
    case StmtKind::kLet:
      if (!to) return nullptr;
      return with(*parent.as<LetNode>(), [&](LetNode& n) { swap(n.body); });
    case StmtKind::kBlock:
      return with(*parent.as<BlockNode>(), [&](BlockNode& n) {
        swap(n.init);
        swap(n.body);
      });
    case StmtKind::kAllocate:
      if (!to) return nullptr;
      return with(*parent.as<AllocateNode>(), [&](AllocateNode& n) { swap(n.body); });
    case StmtKind::kWhile:
      if (!to) return nullptr;
      return with(*parent.as<WhileNode>(), [&](WhileNode& n) { swap(n.body); });
    case StmtKind::kAsync:
      if (!to) return nullptr;
      return with(*parent.as<AsyncNode>(), [&](AsyncNode& n) { swap(n.body); });
    default:
      FETTLE_UNREACHABLE();
  }
}

// The tree with `target` replaced; whether it was there.
bool replace_below(const Stmt& s, const StmtNode* target, const Stmt& replacement, Stmt& result) {
  if (!s) return false;
  if (s.get() == target) {
    result = replacement;
    return true;
  }
  return any_stmt_below(s, [&](const Stmt& child) {
    Stmt fresh;
    if (!replace_below(child, target, replacement, fresh)) return false;
    result = with_child(s, child.get(), fresh);
    return true;
  });
}

}  // namespace

bool walk_up(const Stmt& root, const StmtNode* target, FunctionRef<void(const Stmt&)> fn) {
  return climb(root, target, fn);
}

std::vector<Stmt> path_to(const Stmt& root, const StmtNode* target) {
  SmallVector<const Stmt*, 24> up;
  walk_up(root, target, [&](const Stmt& s) { up.push_back(&s); });
  std::vector<Stmt> path;
  path.reserve(up.size());
  for (size_t i = up.size(); i-- > 0;) path.push_back(*up[i]);
  return path;
}

Stmt replace_stmt(const Stmt& root, const StmtNode* target, const Stmt& replacement) {
  Stmt result;
  const bool found = replace_below(root, target, replacement, result);
  FETTLE_CHECK_MSG(found, "replace_stmt: the statement is not in the tree");
  return result;
}

}  // namespace fettle
