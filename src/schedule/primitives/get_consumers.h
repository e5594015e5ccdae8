#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// The blocks, within the same enclosing block, that read a buffer which `block` writes; `block` itself is none.
/// Returns blocks in program order. Errors: E206 no such block
struct GetConsumersArgs {
  BlockRef block;
  static constexpr auto fields = std::tuple{field("block", &GetConsumersArgs::block)};
};
Result<std::vector<BlockRef>> get_consumers(Schedule& s, const GetConsumersArgs& args);

}  // namespace fettle
