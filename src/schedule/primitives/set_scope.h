#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Moves the buffer that a block writes to another memory scope of the target.
///   alloc B: global   →   alloc B: register
/// index: which of the block's writes. The buffer must be internal to the program. What a scope asks for (a register
/// buffer is addressed by constants once its loops are unrolled) is verified of the whole program, not here.
/// Returns nothing.
/// Errors: E206 no such block · E218 the buffer is a parameter · E219 no such scope · E220 no such write
struct SetScopeArgs {
  BlockRef block;
  int64_t index = 0;
  std::string scope;
  static constexpr auto fields = std::tuple{field("block", &SetScopeArgs::block), field("index", &SetScopeArgs::index),
                                            field("scope", &SetScopeArgs::scope)};
};
Result<> set_scope(Schedule& s, const SetScopeArgs& args);

}  // namespace fettle
