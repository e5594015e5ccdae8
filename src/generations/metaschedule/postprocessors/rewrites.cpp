// Post-processors that do to a sampled program what was noted or left open.

#include <algorithm>

#include "generations/ansor/sketch/layout_rewrite.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/primitives.h"

namespace fettle {

Postprocessor rewrite_accumulators() {
  return {"rewrite_accumulators", [](const TuneContext& context, Schedule& s) -> Result<> {
            if (context.target->has_threads()) return {};
            return accumulate_in_registers(s, *context.target);
          }};
}

Postprocessor rewrite_cooperative_fetch() {
  return {"rewrite_cooperative_fetch", [](const TuneContext& context, Schedule& s) -> Result<> {
            std::vector<std::string> copies;
            walk(s.func()->body, [&](const Stmt& stmt) {
              if (const auto* block = stmt.as<BlockNode>(); block && block->annotations.find(keys::kFetch))
                copies.push_back(block->name);
              return true;
            });
            for (const std::string& name : copies) {
              FETTLE_TRY(const BlockRef copy, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(unannotate(s, {.target = copy, .key = keys::kFetch}));
              if (context.target->has_threads()) FETTLE_TRY_VOID(share_among_threads(s, copy));
            }
            return {};
          }};
}

Postprocessor rewrite_layout() {
  return {"rewrite_layout", [](const TuneContext& context, Schedule& s) -> Result<> {
            FETTLE_TRY_VOID(rewrite_constant_layouts(s));
            return insert_transform_stages(s, context.threads);
          }};
}

Postprocessor rewrite_reduction_block() {
  return {"rewrite_reduction_block",
          [](const TuneContext&, Schedule& s) -> Result<> { return decompose_reductions(s); }};
}

Postprocessor rewrite_tensorize() {
  return {"rewrite_tensorize", [](const TuneContext&, Schedule& s) -> Result<> {
            std::vector<std::pair<std::string, std::string>> tiles;
            walk(s.func()->body, [&](const Stmt& stmt) {
              const auto* block = stmt.as<BlockNode>();
              const Attribute* annotation = block ? block->annotations.find(keys::kTensorize) : nullptr;
              if (annotation) tiles.emplace_back(block->name, std::get<std::string>(*annotation));
              return true;
            });
            for (const auto& [name, intrinsic] : tiles) {
              FETTLE_TRY(const BlockRef tile, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(unannotate(s, {.target = tile, .key = keys::kTensorize}));
              if (name.ends_with("_init")) continue;  // what clears the tile
              FETTLE_TRY_VOID(tensorize(s, {.target = tile, .intrinsic = intrinsic}));
            }
            return {};
          }};
}

Postprocessor rewrite_unbound_block(int64_t threads_per_block) {
  return {"rewrite_unbound_block", [threads_per_block](const TuneContext& context, Schedule& s) -> Result<> {
            if (!context.target->has_threads()) return {};
            const int64_t threads = std::min(threads_per_block, context.target->max_threads_per_block);
            for (const std::string& name : nest_blocks(s.func())) {
              if (!is_unbound(s.func(), *find_block(s.func()->body, name))) continue;
              FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(bind_outer_loops(s, block, IntRef(threads)));
            }
            return {};
          }};
}

}  // namespace fettle
