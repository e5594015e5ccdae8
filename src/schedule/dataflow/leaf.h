#pragma once
// Blocks that are a single store. Their regions tell what they access, without a walk.

#include "ir/stmt.h"

namespace fettle {

/// The body is a single store, and so is the init where there is one.
bool is_leaf(const BlockNode& block);
/// Whether a region of the block is one of `buffer`: a leaf accesses what its regions name, and nothing else.
bool names_buffer(const BlockNode& block, const BufferNode* buffer);

}  // namespace fettle
