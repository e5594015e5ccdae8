#pragma once
// What blocks touch of a buffer, as dependences and races ask for it: first by a look at plain sums of constant loops.

#include <optional>
#include <vector>

#include "analysis/sites.h"
#include "arith/affine_map.h"
#include "arith/plain_map.h"

namespace fettle {

/// The region of that buffer, or null.
const Region* region_of(const std::vector<Region>& regions, const BufferNode* buffer);
bool reads_own_output(const BlockNode& block);
bool same_ranges(const Region& a, const Region& b);
/// Whether `outer` certainly holds what `inner`, both parts of `buffer`, has inside the buffer: outside nothing is
/// touched.
bool covers_in(const std::vector<Range>& outer, const std::vector<Range>& inner, const BufferNode& buffer,
               Analyzer& analyzer);

/// Whether two blocks touch different elements, whichever iterations run.
bool certainly_apart(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& a, const Region& ra,
                     const BlockSite& b, const Region& rb);

/// Whether points of the spatial iterators that differ write different elements. Quickly: single elements, each
/// iterator of its own in one of the indices; and in general, with the iterators bound.
bool names_each_iterator(const BlockNode& block, const Region& region);
bool writes_are_injective(const BlockNode& block, const Region& region, Analyzer& analyzer);

/// Whether points of the loops where the predicate holds certainly have bindings of their own, by a look at them.
bool plainly_injective(const std::vector<Expr>& bindings, const std::vector<VarDomain>& loops, const Expr& predicate);

/// What a block touches of a region, dimension by dimension, while loops[first] and those inside it run.
using PlainRegion = SmallVector<PlainRange, 4>;
std::optional<PlainRegion> plain_region(const BlockSite& site, const Region& region, size_t first);
/// Whether the first region certainly holds the second, by a look at them.
bool plainly_holds(const std::optional<PlainRegion>& outer, const std::optional<PlainRegion>& inner);

}  // namespace fettle
