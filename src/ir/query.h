#pragma once
// Questions to trees: what there is in them, and whether lists are equal.

#include <initializer_list>

#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {

/// fn(node) for every T below, parents first: a statement, or an expression in an expression or in a statement.
template <class T, class Fn>
void each_node(const Expr& e, Fn fn) {
  walk(e, [&](const Expr& x) {
    if (const T* node = x.as<T>()) fn(*node);
    return true;
  });
}
template <class T, class Fn>
void each_node(const Stmt& s, Fn fn) {
  const auto visit = [&](const auto& x) {
    if (const T* node = x.template as<T>()) fn(*node);
    return true;
  };
  if constexpr (std::is_base_of_v<StmtNode, T>)
    walk(s, [&](const Stmt& x) { return visit(x); });
  else
    walk(s, nullptr, [&](const Expr& x) { return visit(x); });
}

/// The first T below, parents first, of which `matches` holds, or null.
template <class T, class Tree, class Match>
const T* find_node(const Tree& tree, Match matches) {
  const T* found = nullptr;
  const auto visit = [&](const auto& x) {
    if (const T* node = found ? nullptr : x.template as<T>(); node && matches(*node)) found = node;
    return !found;
  };
  if constexpr (std::is_same_v<Tree, Expr>)
    walk(tree, [&](const Expr& x) { return visit(x); });
  else if constexpr (std::is_base_of_v<StmtNode, T>)
    walk(tree, [&](const Stmt& x) { return visit(x); });
  else
    walk(tree, [&](const Stmt&) { return !found; }, [&](const Expr& x) { return visit(x); });
  return found;
}
/// Whether there is one.
///   contains<ForNode>(body, [](const ForNode& loop) { return loop.loop_kind == ForKind::kParallel; })
template <class T, class Tree, class Match>
bool contains(const Tree& tree, Match matches) {
  return find_node<T>(tree, matches) != nullptr;
}

/// Whether an expression below, or `e` itself, is of one of these kinds.
bool contains(const Expr& e, std::initializer_list<ExprKind> kinds);

bool structural_equal(const std::vector<Expr>& a, const std::vector<Expr>& b);
bool structural_equal(const Range& a, const Range& b);

Range substitute(const Range& range, const VarMap& values);
std::vector<Region> substitute(std::vector<Region> regions, const VarMap& values);

/// The least and the greatest value of an element type: infinities of floats.
Expr lowest(DType type);
Expr highest(DType type);

}  // namespace fettle
