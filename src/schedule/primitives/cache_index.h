#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Works out a block's costly indices, those of loads that divide, once and ahead.
///   block B: B[vi, vk] = A[(vi + vk) // 3 % 5]
///   →
///   for i, k: block B_index: B_index[vi, vk] = (vi + vk) // 3 % 5
///   block B: B[vi, vk] = A[max(min(B_index[vi, vk], 4), 0)]
/// The clamp changes nothing; it lets whoever looks at the block alone see that the access is inside. Regions stay as
/// they were known.
/// scope: memory scope of the indices
/// Returns the blocks that fill them, named <block>_index, <block>_index1 …. Costs 8 bytes for each point of the
/// iterators that an index uses; the loads become gathers.
/// Errors: E206 no such block · E214 blocks inside · E215 an index reads what the nest around the block writes, so
///         cannot be worked out ahead of it · E219 unknown scope · E220 no load has an index with // or %
struct CacheIndexArgs {
  BlockRef block;
  std::string scope = kScopeGlobal;
  static constexpr auto fields =
      std::tuple{field("block", &CacheIndexArgs::block), field("scope", &CacheIndexArgs::scope)};
};
Result<std::vector<BlockRef>> cache_index(Schedule& s, const CacheIndexArgs& args);

}  // namespace fettle
