#pragma once
// Nests as they come from a tensor expression. Each loop is serial, begins at 0, and is bound to one iterator of the
// one block inside.

#include <vector>

#include "schedule/edit/edit.h"

namespace fettle {

/// The loops of such a nest, by iterator of `block`; the outermost in the program is `top`.
struct PlainNest {
  const ForNode* top = nullptr;
  std::vector<const ForNode*> loops;
};

/// E207 where the nest has another form (also: a predicate, an outer loop that several blocks share) · E201 where a
/// loop is annotated or not serial.
Result<PlainNest> plain_nest(const Func& func, const BlockNode& block);

/// Loops from 0 over all of the block's iterators, in `order` (numbers of iterators) or in theirs, around it; the
/// iterators are bound to them, and the loops are named after them.
Stmt fresh_nest(Ref<BlockNode> block, const std::vector<size_t>& order);
Stmt fresh_nest(Ref<BlockNode> block);

/// One element; all of those dimensions whose index comes from memory.
Region point_region(const Buffer& buffer, const std::vector<Expr>& indices);

}  // namespace fettle
