#pragma once
// The primitives that the schedules of this folder use.

#include "base/check.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/software_pipeline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/schedule.h"

namespace fettle::bench {
using Loops = std::vector<LoopRef>;
using Blocks = std::vector<BlockRef>;

/// "(i, j) -> (i // 4, i % 4, j)"; the text must be one.
inline IndexMap index_map(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}
}  // namespace fettle::bench
