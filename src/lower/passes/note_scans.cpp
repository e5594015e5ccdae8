#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

Func note_scans(const Func& func) {
  bool has_scans = false;
  each_node<BlockNode>(func->body, [&](const BlockNode& block) {
    for (const IterVar& iter : block.iters) has_scans = has_scans || iter.kind == IterKind::kScan;
  });
  return has_scans ? with(func, [](FuncNode& f) { f.annotations.set(kInOrderKey, int64_t{1}); }) : func;
}

}  // namespace fettle
