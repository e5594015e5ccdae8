#pragma once
// Instances that come again: a loop that no iterator uses runs the same ones each time.

#include <vector>

#include "ir/func.h"
#include "schedule/edit.h"

namespace fettle {

/// Whether no instance of `block` comes twice while `loops`, which are among those around it, run. Where an update
/// does, its init beside it makes it begin anew each time; with the init elsewhere it would be added twice. False where
/// that is not known.
bool runs_once(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& loops);

}  // namespace fettle
