#include <algorithm>

#include "generations/metaschedule/postprocessor.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

// The innermost loop around a copy moves by one element on both sides.
bool moves_rows(const ForNode& pipelined, const BlockNode& block) {
  const StoreNode* store = single_store(block);
  const auto loops = loops_between(pipelined.body, &block);
  if (!store || loops.empty()) return true;
  VarMap bindings;
  for (const IterVar& iter : block.iters) bindings[iter.var.get()] = iter.binding;
  const auto strides_one = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Expr> placed;
    for (const Expr& index : indices) placed.push_back(substitute(index, bindings));
    const auto strides = access_strides(*buffer, placed, {loops.back()->var});
    return strides.front() == 1 || strides.front() == 0;
  };
  bool rows = strides_one(store->buffer, store->indices);
  walk(store->value, [&](const Expr& e) {
    if (const auto* load = e.as<LoadNode>()) rows = rows && strides_one(load->buffer, load->indices);
    return rows;
  });
  return rows;
}

}  // namespace

Postprocessor disallow_async_strided_mem_copy() {
  return {"disallow_async_strided_mem_copy", [](const TuneContext&, Schedule& s) -> Result<> {
            const BlockNode* strided = nullptr;
            walk(s.func()->body, [&](const Stmt& stmt) {
              const auto* loop = stmt.as<ForNode>();
              if (!loop || !loop->annotations.find(kPipelineStagesKey)) return !strided;
              for (const BlockNode* block : blocks_under(loop->body)) {
                const StoreNode* store = single_store(*block);
                if (store && only_moves(store->value) && !moves_rows(*loop, *block)) strided = block;
              }
              return !strided;
            });
            if (!strided) return {};
            return fail_at(ErrorCode::E230, s.func(), strided, "a copy in a pipelined loop has a stride",
                           "disallow_async_strided_mem_copy");
          }};
}

}  // namespace fettle
