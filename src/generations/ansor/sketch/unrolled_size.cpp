#include "generations/ansor/sketch/unrolled_size.h"

#include <fmt/format.h>

#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"

namespace fettle {
namespace {

bool chooses(const BlockNode& block) {
  if (block.predicate) return true;
  bool found = false;
  walk(
      block.body,
      [&](const Stmt& s) {
        found |= s.kind() == StmtKind::kIf;
        return !found;
      },
      [&](const Expr& e) {
        found |= e.kind() == ExprKind::kSelect;
        return !found;
      });
  return found;
}

}  // namespace

Result<> verify_unrolled_size(const Func& func, const UnrolledSizeOptions& options) {
  for (const BlockNode* block : blocks_of(func.root())) {
    if (is_scheduled(*block)) continue;  // its selections vanish
    int64_t copies = 1;
    for (const ForNode* loop : loops_around(func, block)) {
      const int64_t* extent = as_int(loop->extent);
      if (loop->loop_kind != ForKind::kUnrolled || !extent) continue;
      if (__builtin_mul_overflow(copies, std::max<int64_t>(*extent, 1), &copies)) copies = INT64_MAX;
    }
    if (copies > (chooses(*block) ? options.most_guarded : options.most))
      return fail_at(ErrorCode::E230, func, block,
                     fmt::format("block {} would be unrolled into {} statements", block->name, copies),
                     "verify_unrolled_size");
  }
  return {};
}

}  // namespace fettle
