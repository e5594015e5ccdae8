#pragma once

#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// Gives a loop another name.
///   for i in e: S   →   for name in e: S[i := name]
/// Returns nothing. Costs nothing.
/// Errors: E206 no such loop, or no name
struct RelabelArgs {
  LoopRef loop;
  std::string name;
  static constexpr auto fields = std::tuple{field("loop", &RelabelArgs::loop), field("name", &RelabelArgs::name)};
};
Result<> relabel(Schedule& s, const RelabelArgs& args);
extern const PrimitiveDef relabel_def;

}  // namespace fettle
