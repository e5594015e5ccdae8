// Finding statements in a tree, and putting others in their place.

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"
#include "ir/path.h"
#include "ir/visit.h"

namespace fettle {
namespace {

using Path = SmallVector<const Stmt*, 24>;

bool has_children(StmtKind kind) {
  return kind != StmtKind::kStore && kind != StmtKind::kEvaluate && kind != StmtKind::kCallFunc;
}

// Quickly: whether loops around a block of leaves are met, and the target is none of them. Steps look up a statement or
// more each, and most of a program is not on the way.
bool is_missed(const Stmt& from, const StmtNode* target) {
  const StmtNode* node = from.get();
  while (node && node != target && node->kind == StmtKind::kFor) node = static_cast<const ForNode*>(node)->body.get();
  if (!node || node == target || node->kind != StmtKind::kBlock) return false;
  const auto* block = static_cast<const BlockNode*>(node);
  const auto misses = [&](const Stmt& s) { return !s || (s.get() != target && !has_children(s.kind())); };
  return misses(block->init) && misses(block->body);
}

// Appends the way from `from` down to the target, both included; nothing where it is not there.
bool find_path(const Stmt& from, const StmtNode* target, Path& path) {
  if (is_missed(from, target)) return false;
  const size_t before = path.size();
  const Stmt* s = &from;
  while (*s) {
    const StmtNode* node = s->get();
    if (node != target && !has_children(node->kind)) break;
    path.push_back(s);
    if (node == target) return true;
    switch (node->kind) {
      case StmtKind::kFor:
        s = &static_cast<const ForNode*>(node)->body;
        continue;
      case StmtKind::kSeq:
        for (const Stmt& child : static_cast<const SeqNode*>(node)->stmts)
          if (find_path(child, target, path)) return true;
        break;
      case StmtKind::kIf: {
        const auto* n = static_cast<const IfNode*>(node);
        if (find_path(n->then_body, target, path)) return true;
        s = &n->else_body;
        continue;
      }
      case StmtKind::kLet:
        s = &static_cast<const LetNode*>(node)->body;
        continue;
      case StmtKind::kBlock: {
        const auto* n = static_cast<const BlockNode*>(node);
        if (n->init && find_path(n->init, target, path)) return true;
        s = &n->body;
        continue;
      }
      case StmtKind::kAllocate:
        s = &static_cast<const AllocateNode*>(node)->body;
        continue;
      case StmtKind::kWhile:
        s = &static_cast<const WhileNode*>(node)->body;
        continue;
      case StmtKind::kAsync:
        s = &static_cast<const AsyncNode*>(node)->body;
        continue;
      case StmtKind::kStore:
      case StmtKind::kEvaluate:
      case StmtKind::kCallFunc:
        break;
    }
    break;
  }
  path.shrink_to(before);
  return false;
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
      if (to && to.kind() != StmtKind::kSeq) return Stmt(make_ref<SeqNode>(std::move(stmts)));
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

}  // namespace

bool walk_up(const Stmt& root, const StmtNode* target, FunctionRef<void(const Stmt&)> fn) {
  Path path;
  if (!find_path(root, target, path)) return false;
  for (size_t i = path.size(); i-- > 0;) fn(*path[i]);
  return true;
}

std::vector<Stmt> path_to(const Stmt& root, const StmtNode* target) {
  Path path;
  find_path(root, target, path);
  std::vector<Stmt> result;
  result.reserve(path.size());
  for (const Stmt* s : path) result.push_back(*s);
  return result;
}

Func replace_owned(Func func, const StmtNode* target, const Stmt& replacement) {
  Path path;
  FETTLE_CHECK_MSG(find_path(func->body, target, path), "replace_owned: the statement is not in the tree");
  // Statements that only what is above them refers to, from the body on; below the first other one all are shared.
  size_t own = 0;
  if (func->use_count() == 1)
    while (own + 1 < path.size() && (*path[own])->use_count() == 1) ++own;
  Stmt result = replacement;
  for (size_t i = path.size() - 1; i > 0; --i) {
    const bool fits = result && (result.kind() != StmtKind::kSeq || path[i - 1]->kind() != StmtKind::kSeq);
    if (i <= own && fits) {
      *const_cast<Stmt*>(path[i]) = std::move(result);
      return func;
    }
    result = with_child(*path[i - 1], path[i]->get(), result);
  }
  if (func->use_count() != 1) return with(func, [&](FuncNode& f) { f.body = std::move(result); });
  const_cast<FuncNode*>(func.get())->body = std::move(result);
  return func;
}

Stmt replace_stmt(const Stmt& root, const StmtNode* target, const Stmt& replacement) {
  Path path;
  FETTLE_CHECK_MSG(find_path(root, target, path), "replace_stmt: the statement is not in the tree");
  Stmt result = replacement;
  for (size_t i = path.size() - 1; i-- > 0;) result = with_child(*path[i], path[i + 1]->get(), result);
  return result;
}

}  // namespace fettle
