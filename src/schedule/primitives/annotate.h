#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Annotates a loop or a block with `value` under `key`; an annotation that is there already is replaced.
///   for i in e: S   →   for i in e (key = value): S
/// What a key means is documented where it is read; meaning and order of the program do not change.
/// Returns nothing.
/// Errors: E206 no such loop or block · E225 `target` is neither
struct AnnotateArgs {
  StepRef target;  // a LoopRef or a BlockRef
  std::string key;
  Attribute value = int64_t{1};
  static constexpr auto fields = std::tuple{field("target", &AnnotateArgs::target), field("key", &AnnotateArgs::key),
                                            field("value", &AnnotateArgs::value)};
};
Result<> annotate(Schedule& s, const AnnotateArgs& args);

}  // namespace fettle
