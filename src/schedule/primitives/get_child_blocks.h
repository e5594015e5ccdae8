#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// The blocks under a loop, or inside a block, that no other block there encloses.
/// Returns blocks in program order. Errors: E206 no such loop or block · E225 `parent` is neither
struct GetChildBlocksArgs {
  StepRef parent;  // a LoopRef or a BlockRef
  static constexpr auto fields = std::tuple{field("parent", &GetChildBlocksArgs::parent)};
};
Result<std::vector<BlockRef>> get_child_blocks(Schedule& s, const GetChildBlocksArgs& args);

}  // namespace fettle
