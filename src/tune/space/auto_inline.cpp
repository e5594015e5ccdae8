#include "tune/space/auto_inline.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_consumers.h"

namespace fettle {
namespace {

bool is_costly(const Expr& value) {
  bool costly = false;
  walk(value, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>(); call && call->name != "likely") costly = true;
    if (const auto* binary = e.as<BinaryNode>(); binary && binary->op == BinaryOp::kDiv) costly = true;
    return !costly;
  });
  return costly;
}

}  // namespace

Result<> auto_inline(RuleContext& ctx) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(ctx.schedule.func().root())) names.push_back(block->name);
  for (const std::string& name : names) {
    const Func func = ctx.schedule.func();
    const BlockNode* block = find_block(func->body, name);
    if (!block || block->init) continue;
    const StoreNode* store = single_store(*block);
    if (!store || is_param(func, store->buffer.get())) continue;
    const std::vector<const BlockNode*> readers = consumers_of(func.root(), store->buffer.get());
    if (readers.empty()) continue;
    bool into_reduction = false;
    size_t reads = 0;
    for (const BlockNode* reader : readers) {
      into_reduction |= static_cast<bool>(reader->init);
      reads += loads_of(Stmt(Ref<const StmtNode>(reader)), store->buffer.get()).size();
    }
    const bool moves = only_moves(store->value);
    const bool pads = store->value.as<SelectNode>() != nullptr;
    if (into_reduction && !moves) continue;
    if (!moves && (reads > 1 && is_costly(store->value))) continue;

    ctx.schedule.set_address_prefix("auto_inline/" + name);
    if (into_reduction && pads) {
      FETTLE_TRY(const int64_t keep, choose(ctx, "keep", {0, 1}, 0, {0.8, 0.2}));
      if (keep) continue;
    }
    Schedule trial = ctx.schedule;
    FETTLE_TRY(const BlockRef ref, get_block(trial, {.name = name}));
    if (compute_inline(trial, {.block = ref})) ctx.schedule = std::move(trial);
  }
  return {};
}

}  // namespace fettle
