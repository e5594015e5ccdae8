#pragma once
// Finds loops that no iterator uses. Their iterations repeat the same instances.

#include <vector>

#include "ir/func.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// Whether no instance of `block` comes twice while `loops`, which are among those around it, run. Where an update
/// does, its init beside it makes it begin anew each time; with the init elsewhere it would be added twice. False where
/// that is not known.
bool runs_once(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& loops);

/// Whether elements of `buffer` take other values in later iterations of `loop`. They do where blocks below it compute
/// them anew from values that change, or go on with a sum or a scan. What reads them there belongs into the same
/// iteration. Not so where each iteration has elements of its own, or makes the same again.
bool changes_with(const Func& func, const BufferNode* buffer, const ForNode* loop);

/// A loop around `block` but not around `place` with whose iterations something changes that the block reads, so that
/// it must stay below; null if there is none.
const ForNode* must_stay_below(const Func& func, const BlockNode& block, const StmtNode* place);

}  // namespace fettle
