#pragma once
// Names that a block's statements bind for themselves.

#include "ir/query.h"

namespace fettle {

/// Whether the expression uses a variable that a loop or a let of `s` binds: outside of `s` it then means nothing.
inline bool uses_bound_in(const Stmt& s, const Expr& e) {
  const auto used = [&](const auto& binds) { return uses_var(e, binds.var.get()); };
  return contains<ForNode>(s, used) || contains<LetNode>(s, used);
}

}  // namespace fettle
