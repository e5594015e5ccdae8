#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// The blocks directly in the root that write an output of the program.
/// Returns blocks in program order. Errors: none
struct GetOutputBlocksArgs {
  static constexpr auto fields = std::tuple{};
};
Result<std::vector<BlockRef>> get_output_blocks(Schedule& s, const GetOutputBlocksArgs& args);

}  // namespace fettle
