// Finding statements in a tree, and putting others in their place.

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"
#include "ir/fields.h"
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
  for (; *s && s->kind() == StmtKind::kFor && s->get() != target; s = &s->as<ForNode>()->body) path.push_back(s);
  path.push_back(s);
  if (s->get() == target) return true;
  bool found = false;
  if (*s)
    each_child(*s, Overloaded{[](const Expr&) {},
                              [&](const Stmt& child) {
                                const bool leads = child && (child.get() == target || has_children(child.kind()));
                                found = found || (leads && find_path(child, target, path));
                              }});
  if (!found) path.shrink_to(before);
  return found;
}

// The copy of `parent` in which the child `from` is `to` (null: removed).
Stmt with_child(const Stmt& parent, const StmtNode* from, const Stmt& to) {
  return with_node(parent, [&]<class Node>(const Node& node) {
    auto copy = make_ref<Node>(node);
    const auto swap = [&](const Stmt& child) {
      if (child.get() == from) const_cast<Stmt&>(child) = to;
    };
    each_below(*copy, Overloaded{[](const Expr&) {}, swap});
    return std::is_same_v<Node, BlockNode> ? Stmt(copy) : remade(copy);
  });
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
