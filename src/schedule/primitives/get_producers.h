#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// The blocks, within the same enclosing block, that write a buffer which `block` reads; `block` itself is none.
/// Returns blocks in program order. Errors: E206 no such block
struct GetProducersArgs {
  BlockRef block;
  static constexpr auto fields = std::tuple{field("block", &GetProducersArgs::block)};
};
Result<std::vector<BlockRef>> get_producers(Schedule& s, const GetProducersArgs& args);

}  // namespace fettle
