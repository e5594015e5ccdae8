#include <algorithm>

#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

Func note_scans(const Func& func) {
  bool has_scans = false;
  each_node<BlockNode>(func->body, [&](const BlockNode& block) {
    const bool is_ordered = std::ranges::any_of(
        block.iters, [](const IterVar& iter) { return iter.kind == IterKind::kScan && !is_one(iter.extent); });
    // Copies into a cache and out of it run in order, too, and are no loops to look after.
    const auto* store = block.body.as<StoreNode>();
    // Schedules mark blocks that run in order though none of their iterators says so.
    has_scans = has_scans || block.annotations.get_int(kInOrderKey, 0) != 0;
    has_scans = has_scans || (is_ordered && !(store && store->value.kind() == ExprKind::kLoad));
  });
  return has_scans ? with(func, [](FuncNode& f) { f.annotations.set(kInOrderKey, int64_t{1}); }) : func;
}

}  // namespace fettle
