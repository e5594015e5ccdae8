#pragma once
// Quasi-affine maps from loops to iterators: whether the bindings of a block reach every point of its domain, and each
// only once.
//
// A binding is read as a number in mixed radix: a sum of scale * digit, where a digit (source / lower) % extent is a
// part of a loop variable, or of such a sum (a fused loop that was split again). Digits that make up a source exactly
// once, in sums without gaps, give a bijection. What `split` leaves is understood for each tail:
//   exact, guard, mask   i0*f + i1, predicate i0*f + i1 < e
//   balance              i0*q + min(i0, r) + i1, predicate i1 < q + (i0 < r ? 1 : 0); of open extents open_balance
//   shift                min(i0*f, e - f) + i1              (reaches all, some twice)
// as is what `fuse` leaves: x / e1 and x % e1.

#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "arith/region.h"

namespace fettle {

/// What is known of one binding alone: its values are those of [min, min + extent), each at least once where dense.
struct BindingInfo {
  Expr min, extent;
  bool dense = false;
  /// Every point of the loops that it uses gives another value.
  bool injective = false;
};

struct AffineMap {
  /// Every binding is quasi-affine in the loops; without it, nothing below is known.
  bool affine = false;
  /// The bindings use different parts of the loops: the values of one do not depend on those of another.
  bool independent = false;
  /// No two points of the loops where the predicate holds give the same values.
  bool injective = false;
  /// All points of the product of [0, extents[k]) are reached (others may be, too: see Analyzer for bounds).
  bool covers = false;
  std::vector<BindingInfo> bindings;
  /// Why not, for messages: "vi: the predicate … is not understood".
  std::string reason;

  bool bijective() const { return injective && covers; }
};

/// `loops`: the domains, outermost first; those of extent 1 count as constants. `predicate` may be null.
/// `analyzer` holds what is known of other variables (parameters, iterators of an outer block).
AffineMap detect_affine_map(const std::vector<Expr>& bindings, const std::vector<Expr>& extents,
                            const std::vector<VarDomain>& loops, const Expr& predicate, Analyzer& analyzer);

/// An open number of iterations in tiles that are as long, but for the last two, which share what is left for them. The
/// last one begins `back` earlier than if it had all that is left:
///   20 in tiles of 6: 6 + 6 + 4 + 4, back = 2
/// For iteration `inner` of tile `outer`, of ceil(count / tile) tiles:
///   index = outer*tile + inner - ((outer + 1)*tile < count ? 0 : back)
///   inner < length = (outer + 1)*tile < count
///                    ? ((outer + 2)*tile < count ? tile : tile - ((outer + 2)*tile - count) / 2)
///                    : count - outer*tile + back
///   back = outer > 0 ? ((outer + 1)*tile - count) / 2 : 0
struct OpenBalance {
  Expr index, length;
};
OpenBalance open_balance(const Expr& outer, const Expr& inner, const Expr& count, int64_t tile);

/// The inverse of an index map over inputs in [0, shape[i]).
struct IndexMapInverse {
  /// What the outputs run over: [0, physical_shape[k]); more points than there are inputs where the map pads.
  std::vector<Expr> physical_shape;
  /// physical indices → inputs
  IndexMap inverse;
  /// Over the inverse's inputs: true where the point comes from an input. Null: always.
  Expr valid;
};

/// E217 where the outputs do not determine the inputs, or leave gaps that are no padding at an end.
///   (n, c) → (n, c/16, c%16) over [2, 60]   →   physical [2, 4, 16], (n, c1, c2) → (n, c1*16 + c2), c1*16 + c2 < 60
Result<IndexMapInverse> invert(const IndexMap& map, const std::vector<Expr>& shape, Analyzer& analyzer);
/// The same where extents are rounded up to whole blocks: x // 32 beside x % 32 makes blocks of 32 also of the 20
/// elements that there are.
Result<IndexMapInverse> invert_rounded(const IndexMap& map, std::vector<Expr> shape, Analyzer& analyzer);

}  // namespace fettle
