#pragma once
// Compares the statement of a tensor intrinsic's meaning with that of a tile.

#include <vector>

#include "ir/compare.h"
#include "ir/stmt.h"

namespace fettle {

/// True if `data` is `pattern` up to the order of factors and terms and to what its accesses are. `state`: what was
/// found out on the way, copied where two orders are tried. `access(state, pattern_buffer, pattern_indices, buffer,
/// indices)` says whether an access may stand for that of the pattern, and notes it in the state.
template <class State, class Access>
bool match_expr(const Expr& pattern, const Expr& data, State& state, const Access& access) {
  if (pattern.kind() != data.kind() || !(pattern.dtype() == data.dtype())) return false;
  if (const auto* source = pattern.as<LoadNode>()) {
    const auto* other = data.as<LoadNode>();
    return !other->mask && access(state, source->buffer, source->indices, other->buffer, other->indices);
  }
  if (const auto* op = pattern.as<BinaryNode>()) {
    const auto* other = data.as<BinaryNode>();
    if (op->op != other->op) return false;
    const State before = state;
    if (match_expr(op->a, other->a, state, access) && match_expr(op->b, other->b, state, access)) return true;
    if (op->op != BinaryOp::kAdd && op->op != BinaryOp::kMul) return false;
    state = before;
    return match_expr(op->a, other->b, state, access) && match_expr(op->b, other->a, state, access);
  }
  if (const auto* conversion = pattern.as<CastNode>())
    return match_expr(conversion->a, data.as<CastNode>()->a, state, access);
  return structural_equal(pattern, data);
}

template <class State, class Access>
bool match_store(const StoreNode& pattern, const StoreNode& data, State& state, const Access& access) {
  return !data.mask && access(state, pattern.buffer, pattern.indices, data.buffer, data.indices) &&
         match_expr(pattern.value, data.value, state, access);
}

}  // namespace fettle
