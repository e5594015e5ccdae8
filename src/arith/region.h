#pragma once
// Ranges of expressions, and rectangular regions, while some variables run over their domains.

#include <optional>
#include <span>
#include <vector>

#include "arith/analyzer.h"
#include "ir/buffer.h"

namespace fettle {

/// A variable that runs over [min, min + extent).
struct VarDomain {
  Var var;
  Range range;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::VarDomain);

namespace fettle {

/// The hull of the values in each range while the variables of `domains` run over theirs; min and extent are simplified
/// expressions in the other variables. A domain may use variables of domains before it (outer loops).
///   e + [0, 1) = i0*32 + i1*4 + kw - 1,  domains i1 in [0,8), kw in [0,3)   →   [i0*32 - 1, + 34)
/// Exact hull for sums; div, mod, min, max and select are taken at the ends of their arguments, so the hull may be
/// wider than needed. `analyzer` knows the other variables' ranges; nothing where one of them is not bounded by the
/// domains (it loads from memory, say).
std::optional<std::vector<Range>> ranges_of(const std::vector<Range>& ranges, std::span<const VarDomain> domains,
                                            Analyzer& analyzer);

/// The part of `a` inside [0, extent).
Range clamp(const Range& a, const Expr& extent, Analyzer& analyzer);

/// Whether `outer` certainly holds all of `inner`.
bool covers(const Range& outer, const Range& inner, Analyzer& analyzer);
/// Whether the two certainly have no element in common.
bool disjoint(const std::vector<Range>& a, const std::vector<Range>& b, Analyzer& analyzer);

}  // namespace fettle
