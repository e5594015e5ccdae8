#pragma once
// Reductions as reformulations see them: a perfect nest, an init, an update C = C op f.

#include <string>
#include <vector>

#include "ir/func.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// What the pattern binds.
struct ReductionPattern {
  std::vector<const ForNode*> loops;  // outermost first
  size_t reduce = 0;                  // index of the last reduce iterator
  const StoreNode* init = nullptr;    // of op's neutral element
  const StoreNode* update = nullptr;
  const BinaryNode* combine = nullptr;
  Expr term;  // f
};

/// A perfect nest whose loops are bound one to one to the block's iterators, without a predicate. Reduce iterators, one
/// or several, have constant extents, or `open` ones; all others are spatial. The update is C[…] = C[…] op f with op
/// one of + * min max ordered_max, and the init is op's neutral element. E228 where it is something else.
Result<ReductionPattern> match_reduction(const Func& func, const BlockNode& block, bool several = false,
                                         bool open = false);

/// A reduction in a plain nest, and how it combines. E228 where it is something else.
struct PlainReduction {
  PlainNest nest;
  Combiner combiner;
};
Result<PlainReduction> plain_reduction(const Func& func, const BlockNode& block);

/// E228, with what does not fit.
tl::unexpected<Diagnostic> pattern_differs(std::string why);

}  // namespace fettle
