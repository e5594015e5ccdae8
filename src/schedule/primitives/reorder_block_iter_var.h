#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Lists a block's iterators in another order.
///   block C(vi = i, vj = j, vk = k): …   →   reorder_block_iter_var(C, [2, 0, 1]): block C(vk = k, vi = i, vj = j): …
/// Neither loops nor results change; what goes by the order of iterators does (the axes of transform_block_layout,
/// the loops that compute_at makes, matching of tensor intrinsics).
/// new_order: numbers of the iterators as they are now, each once
/// Returns nothing.
/// Errors: E206 no such block · E241 `new_order` is no permutation
struct ReorderBlockIterVarArgs {
  BlockRef block;
  std::vector<int64_t> new_order;
  static constexpr auto fields = std::tuple{field("block", &ReorderBlockIterVarArgs::block),
                                            field("new_order", &ReorderBlockIterVarArgs::new_order)};
};
Result<> reorder_block_iter_var(Schedule& s, const ReorderBlockIterVarArgs& args);

}  // namespace fettle
