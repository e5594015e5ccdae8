#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Removes the annotation under `key` from a loop or a block: the inverse of annotate.
/// Returns nothing.
/// Errors: E206 no such loop or block · E225 `target` is neither · E232 there is no such annotation
struct UnannotateArgs {
  StepRef target;  // a LoopRef or a BlockRef
  std::string key;
  static constexpr auto fields =
      std::tuple{field("target", &UnannotateArgs::target), field("key", &UnannotateArgs::key)};
};
Result<> unannotate(Schedule& s, const UnannotateArgs& args);

}  // namespace fettle
