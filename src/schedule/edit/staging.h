#pragma once
// Makes copies between a buffer and a faster one. cache_read, cache_write and cache_inplace share it.

#include <string>
#include <vector>

#include "ir/func.h"
#include "schedule/dataflow/footprint.h"

namespace fettle {

/// A buffer of the shape, type and physical layout of `buffer`, named "<buffer>_<scope>".
Buffer cache_buffer(const Func& func, const Buffer& buffer, const std::string& scope);

/// `block` with the accesses and regions of `from` going to `to`; indices stay.
Stmt with_buffer(const BlockNode& block, const Buffer& from, const Buffer& to);

/// for ax0, ax1, …: block NAME(v0, v1, …): to[v…] = from[v…]     over `ranges`, one loop for each dimension.
/// Where a range may exceed the buffer's shape, the block's predicate keeps it inside; `analyzer` knows the loops
/// around.
Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to, std::vector<Range> ranges,
               Analyzer& analyzer);

/// Widens `hull`, a range for each dimension of `buffer` (empty: of nothing so far), by what the block reads of it:
/// `reached` gives the values of a range in the loops' variables, in a dimension of extent `whole`.
void add_reads(std::vector<Range>& hull, const BlockNode& reader, const Buffer& buffer, Analyzer& analyzer,
               FunctionRef<Range(const Range& read, const Expr& whole)> reached);
/// `range` cut to [0, whole) where the cut leaves a constant extent.
Range clipped(const Range& range, const Expr& whole);

}  // namespace fettle
