#pragma once
// Takes the update of a reduction apart: C[…] = C[…] op f.

#include "ir/func.h"
#include "schedule/edit/edit.h"

namespace fettle {

struct Combiner {
  const StoreNode* init = nullptr;    // of op's neutral element
  const StoreNode* update = nullptr;  // at the same indices
  BinaryOp op = BinaryOp::kAdd;
  Expr term;  // f
};

/// E212 where the block's init and body are not such a pair with op one of + * min max ordered_max: the last as
/// C[…] = ordered_max(f, C[…]). `accumulated` (ir/expr.h) makes the update of another C and f.
Result<Combiner> match_combiner(const Func& func, const BlockNode& block);

}  // namespace fettle
