#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// The loops between a block and the block that encloses it.
/// Returns loops, outermost first; none where the block has no loops of its own. Errors: E206 no such block
struct GetLoopsArgs {
  BlockRef block;
  static constexpr auto fields = std::tuple{field("block", &GetLoopsArgs::block)};
};
Result<std::vector<LoopRef>> get_loops(Schedule& s, const GetLoopsArgs& args);

}  // namespace fettle
