// Rule 5: a node with data reuse and without a fusible consumer gets one: it writes to a cache, which a node of its
// own copies back. The node stays the working one.
//   (S, i) → (AddCacheWrite(S, i), i)

#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  const Func& func = state.schedule.func();
  if (!block || !has_data_reuse(func, *block) || has_fusible_consumer(func, *block)) return false;
  // The transform of Winograd's outputs reads columns of it at once: a copy would only come between.
  const auto readers = consumers_of(func.root(), block->writes[0].buffer.get());
  return std::ranges::none_of(readers, [](const BlockNode* reader) { return is_scheduled(*reader); });
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = next.nodes[next.working - 1]}));
  FETTLE_TRY(const BlockRef copy, cache_write(next.schedule, {.block = block}));
  FETTLE_TRY(const Stmt node, next.schedule.block(copy));
  next.nodes.insert(next.nodes.begin() + static_cast<std::ptrdiff_t>(next.working), node.as<BlockNode>()->name);
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule add_cache_stage_rule{"add_cache_stage", 5, applies, apply};

}  // namespace fettle
