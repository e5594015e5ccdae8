#pragma once
// The lists of passes from a scheduled program to code ready to print. `fettle inspect --after` shows what each leaves.

#include <span>
#include <string_view>

#include "lower/lower.h"

namespace fettle {

struct LoweringContext {
  const Target& target;
  const LowerOptions& options;
};

/// A pass rewrites the kernel and its prologue. One that finds nothing to do leaves them as they are.
struct LoweringPass {
  std::string_view name;
  Result<> (*run)(LoweredKernel& lowered, const LoweringContext& context);
};

/// The passes in order; some names stand in a list more than once.
std::span<const LoweringPass> lowering_passes(Pipeline pipeline);

}  // namespace fettle
