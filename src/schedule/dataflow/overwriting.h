#pragma once
// Buffers that several blocks write. Where one block leaves elements out, they hold what another one wrote.

#include "schedule/dataflow/dataflow.h"

namespace fettle {

/// A block that writes `buffer` and neither encloses `block` nor is inside of it, anywhere in the function; or null.
const BlockNode* other_writer(const Func& func, const BlockNode& block, const BufferNode* buffer);

/// True if each instance of a block without blocks inside stores what its region of `buffer` says, under no condition.
bool stores_always(const BlockNode& block, const BufferNode* buffer);

}  // namespace fettle
