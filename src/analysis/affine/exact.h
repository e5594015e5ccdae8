#pragma once
// Questions that sums of plain loops do not answer, answered exactly by isl where all is affine.

#include <span>

#include "analysis/sites.h"
#include "base/result.h"

namespace fettle {

/// Whether no two iterations of the loop touch one element, one of them to write it: while the loops around stand
/// still. A reduction's updates count. E210 they do, naming blocks · E209 it is not known
Result<> check_iterations_independent(const Func& func, const ForNode& loop);
/// Whether all bindings of a block stay in their iterators' domains wherever it runs. E230 · E209 it is not known
Result<> check_bindings_inside(const Func& func, const BlockSite& site);
/// Whether the blocks under the loop `top` stay in order when loops on the straight way down from it come in `order`
/// in place of theirs; those of a reduction may be done in any order. E227 · E209 it is not known
Result<> check_interchange(const Func& func, const Stmt& top, std::span<const ForNode* const> order);

}  // namespace fettle
