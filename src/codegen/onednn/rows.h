#pragma once
// Programs that work row by row, over several reductions.

#include <optional>
#include <vector>

#include "codegen/onednn/match.h"
#include "codegen/onednn/program.h"

namespace fettle::onednn {

/// Softmax along the last of two dimensions.
std::optional<Matched> match_softmax(const Func& program, const std::vector<Step>& steps);
/// Layer normalisation along the last of two dimensions, with scale and shift.
std::optional<Matched> match_layer_norm(const Func& program, const std::vector<Step>& steps);

}  // namespace fettle::onednn
