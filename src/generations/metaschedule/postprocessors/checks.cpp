// Post-processors that leave programs out.

#include <algorithm>

#include "analysis/sites.h"
#include "analysis/verify.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/ansor/sketch/unrolled_size.h"
#include "generations/metaschedule/postprocessor.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

// The innermost loop around a copy moves by one element on both sides.
bool moves_rows(const ForNode& pipelined, const BlockNode& block) {
  const StoreNode* store = single_store(block);
  const auto loops = loops_between(pipelined.body, &block);
  if (!store || loops.empty()) return true;
  const VarMap bindings = binding_map(block);
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

Postprocessor disallow_dynamic_loop() {
  return {"disallow_dynamic_loop", [](const TuneContext&, Schedule& s) -> Result<> {
            const StmtNode* dynamic = nullptr;
            walk(s.func()->body, [&](const Stmt& stmt) {
              const auto* loop = stmt.as<ForNode>();
              if (loop && !as_int(loop->extent)) dynamic = loop;
              return !dynamic;
            });
            if (!dynamic) return {};
            return fail_at(ErrorCode::E221, s.func(), dynamic, "the loop's extent is not a constant",
                           "disallow_dynamic_loop");
          }};
}

Postprocessor verify_code_size() {
  return {"verify_code_size",
          [](const TuneContext&, Schedule& s) -> Result<> { return verify_unrolled_size(s.func()); }};
}

Postprocessor verify_gpu_code() {
  return {"verify_gpu_code",
          [](const TuneContext& context, Schedule& s) { return fits_threads(s.func(), *context.target); }};
}

Postprocessor verify_scratchpad_limit(std::string scope, int64_t capacity_bytes) {
  return {"verify_scratchpad_limit",
          [scope = std::move(scope), capacity_bytes](const TuneContext& context, Schedule& s) -> Result<> {
            Target target = *context.target;
            if (const auto at = std::ranges::find(target.scopes, scope, &MemoryScope::name); at != target.scopes.end())
              at->capacity_bytes = capacity_bytes;
            return verify(s.func(), target, {.races = false});
          }};
}

}  // namespace fettle
