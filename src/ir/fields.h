#pragma once
// What each node consists of, for code that treats all of them alike: walks, rewriting, equality, hashes.

#include <tuple>
#include <vector>

#include "base/check.h"
#include "ir/func.h"

namespace fettle {

/// The fields of a node, or of what it holds by value, in the order of the canonical bytes: what a name stands for
/// comes after the expressions around it, and before those below. A node's type is not among them, and neither is what
/// makes a variable: that is its identity.
template <class Node>
inline constexpr auto fields_of = std::tuple<>();

template <>
inline constexpr auto fields_of<IntImmNode> = std::tuple{&IntImmNode::value};
template <>
inline constexpr auto fields_of<FloatImmNode> = std::tuple{&FloatImmNode::value};
template <>
inline constexpr auto fields_of<BinaryNode> = std::tuple{&BinaryNode::op, &BinaryNode::a, &BinaryNode::b};
template <>
inline constexpr auto fields_of<NotNode> = std::tuple{&NotNode::a};
template <>
inline constexpr auto fields_of<SelectNode> =
    std::tuple{&SelectNode::condition, &SelectNode::if_true, &SelectNode::if_false};
template <>
inline constexpr auto fields_of<CastNode> = std::tuple{&CastNode::a};
template <>
inline constexpr auto fields_of<LoadNode> = std::tuple{&LoadNode::buffer, &LoadNode::indices, &LoadNode::mask};
template <>
inline constexpr auto fields_of<AddressNode> = std::tuple{&AddressNode::buffer, &AddressNode::indices};
template <>
inline constexpr auto fields_of<CallNode> = std::tuple{&CallNode::name, &CallNode::args};
template <>
inline constexpr auto fields_of<RampNode> = std::tuple{&RampNode::base, &RampNode::stride};
template <>
inline constexpr auto fields_of<BroadcastNode> = std::tuple{&BroadcastNode::value};
template <>
inline constexpr auto fields_of<ShuffleNode> = std::tuple{&ShuffleNode::vectors, &ShuffleNode::lanes};

template <>
inline constexpr auto fields_of<Range> = std::tuple{&Range::min, &Range::extent};
template <>
inline constexpr auto fields_of<Region> = std::tuple{&Region::buffer, &Region::ranges};
template <>
inline constexpr auto fields_of<IterVar> = std::tuple{&IterVar::kind, &IterVar::extent, &IterVar::binding};

template <>
inline constexpr auto fields_of<ForNode> =
    std::tuple{&ForNode::loop_kind, &ForNode::tail,   &ForNode::thread_axis, &ForNode::annotations,
               &ForNode::min,       &ForNode::extent, &ForNode::var,         &ForNode::body};
template <>
inline constexpr auto fields_of<SeqNode> = std::tuple{&SeqNode::stmts};
template <>
inline constexpr auto fields_of<IfNode> = std::tuple{&IfNode::condition, &IfNode::then_body, &IfNode::else_body};
template <>
inline constexpr auto fields_of<LetNode> = std::tuple{&LetNode::value, &LetNode::var, &LetNode::body};
template <>
inline constexpr auto fields_of<StoreNode> =
    std::tuple{&StoreNode::buffer, &StoreNode::indices, &StoreNode::value, &StoreNode::mask};
template <>
inline constexpr auto fields_of<EvaluateNode> = std::tuple{&EvaluateNode::value};
template <>
inline constexpr auto fields_of<BlockNode> = std::tuple{
    &BlockNode::name,  &BlockNode::annotations, &BlockNode::predicate, &BlockNode::iters, &BlockNode::allocations,
    &BlockNode::reads, &BlockNode::writes,      &BlockNode::init,      &BlockNode::body};
template <>
inline constexpr auto fields_of<AllocateNode> = std::tuple{&AllocateNode::buffer, &AllocateNode::body};
template <>
inline constexpr auto fields_of<WhileNode> = std::tuple{&WhileNode::condition, &WhileNode::body};
template <>
inline constexpr auto fields_of<CallFuncNode> = std::tuple{&CallFuncNode::name, &CallFuncNode::args};
template <>
inline constexpr auto fields_of<AsyncNode> =
    std::tuple{&AsyncNode::async_kind, &AsyncNode::queue, &AsyncNode::pending, &AsyncNode::body};

/// fn(member) for each field, in order.
template <class Node, class Fn>
void each_field(Fn fn) {
  std::apply([&](auto... members) { (fn(members), ...); }, fields_of<Node>);
}

/// Whether fn(member) holds for all fields; it is not asked of those after one where it does not.
template <class Node, class Fn>
bool all_fields(Fn fn) {
  return std::apply([&](auto... members) { return (fn(members) && ...); }, fields_of<Node>);
}

/// fn(node), with the node's own type; e is not null.
template <class Fn>
decltype(auto) with_node(const Expr& e, Fn&& fn) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return fn(*e.as<IntImmNode>());
    case ExprKind::kFloatImm:
      return fn(*e.as<FloatImmNode>());
    case ExprKind::kVar:
      return fn(*e.as<VarNode>());
    case ExprKind::kBinary:
      return fn(*e.as<BinaryNode>());
    case ExprKind::kNot:
      return fn(*e.as<NotNode>());
    case ExprKind::kSelect:
      return fn(*e.as<SelectNode>());
    case ExprKind::kCast:
      return fn(*e.as<CastNode>());
    case ExprKind::kLoad:
      return fn(*e.as<LoadNode>());
    case ExprKind::kAddress:
      return fn(*e.as<AddressNode>());
    case ExprKind::kCall:
      return fn(*e.as<CallNode>());
    case ExprKind::kRamp:
      return fn(*e.as<RampNode>());
    case ExprKind::kBroadcast:
      return fn(*e.as<BroadcastNode>());
    case ExprKind::kShuffle:
      return fn(*e.as<ShuffleNode>());
  }
  FETTLE_UNREACHABLE();
}

template <class Fn>
decltype(auto) with_node(const Stmt& s, Fn&& fn) {
  switch (s.kind()) {
    case StmtKind::kFor:
      return fn(*s.as<ForNode>());
    case StmtKind::kSeq:
      return fn(*s.as<SeqNode>());
    case StmtKind::kIf:
      return fn(*s.as<IfNode>());
    case StmtKind::kLet:
      return fn(*s.as<LetNode>());
    case StmtKind::kStore:
      return fn(*s.as<StoreNode>());
    case StmtKind::kEvaluate:
      return fn(*s.as<EvaluateNode>());
    case StmtKind::kBlock:
      return fn(*s.as<BlockNode>());
    case StmtKind::kAllocate:
      return fn(*s.as<AllocateNode>());
    case StmtKind::kWhile:
      return fn(*s.as<WhileNode>());
    case StmtKind::kCallFunc:
      return fn(*s.as<CallFuncNode>());
    case StmtKind::kAsync:
      return fn(*s.as<AsyncNode>());
  }
  FETTLE_UNREACHABLE();
}

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;

/// fn(child) for each Expr and each Stmt that `field` is or holds by value; some are null.
template <class Field, class Fn>
void each_below(const Field& field, const Fn& fn) {
  if constexpr (std::is_same_v<Field, Expr> || std::is_same_v<Field, Stmt>)
    fn(field);
  else if constexpr (is_list<Field>)
    for (const auto& item : field) each_below(item, fn);
  else
    each_field<Field>([&](auto member) { each_below(field.*member, fn); });
}

/// fn(child) for each expression, and each statement, directly below an Expr or a Stmt; some are null.
template <class Tree, class Fn>
void each_child(const Tree& tree, const Fn& fn) {
  with_node(tree, [&](const auto& node) { each_below(node, fn); });
}

/// A statement whose fields are new. One that only repeats, names or holds what is gone is gone too.
template <class Node>
Stmt remade(const Ref<Node>& n) {
  if constexpr (std::is_same_v<Node, SeqNode>) {
    return seq(std::move(n->stmts));
  } else if constexpr (std::is_same_v<Node, IfNode>) {
    if (!n->then_body && !n->else_body) return nullptr;
    if (!n->then_body) return if_then(logical_not(n->condition), n->else_body);
  } else if constexpr (requires { n->body; } && !std::is_same_v<Node, WhileNode> && !std::is_same_v<Node, AsyncNode>) {
    if (!n->body) return nullptr;
  }
  return Stmt(n);
}

/// One function out of several, by the type of the argument.
template <class... Fns>
struct Overloaded : Fns... {
  using Fns::operator()...;
};

}  // namespace fettle
