#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Finds the block of that name.
/// Returns one block. Errors: E206 no such block
struct GetBlockArgs {
  std::string name;
  static constexpr auto fields = std::tuple{field("name", &GetBlockArgs::name)};
};
Result<BlockRef> get_block(Schedule& s, const GetBlockArgs& args);
extern const PrimitiveDef get_block_def;

}  // namespace fettle
