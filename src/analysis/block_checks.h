#pragma once
// What verify asks of one block alone: accesses inside their buffers, pad lanes kept zero.

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// Every load and store in the block's body and init is inside its buffer, for all points of its iterators' domains and
/// under the conditions in the body. Blocks inside the block are left out. E230.
Result<> check_accesses(const Func& func, const BlockNode& block);

/// Whether a look at the block shows that: single stores, at sums or parts of iterators of constant extent.
bool accesses_plainly_inside(const BlockNode& block);

/// True if the buffer's physical shape holds more elements than its logical one.
bool has_pad_lanes(const BufferNode& buffer);

/// Every store of the block to a buffer with pad lanes either touches none of them or stores zero there, given that
/// pad lanes of what it reads are zero. E230.
Result<> check_pad_lanes(const Func& func, const BlockNode& block);

}  // namespace fettle
