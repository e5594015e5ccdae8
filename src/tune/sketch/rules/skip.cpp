#include "tune/sketch/rules/skip.h"

#include "schedule/dataflow.h"
#include "tune/sketch/conditions.h"

namespace fettle {
namespace {

bool can_be_inlined(const SketchState& state) {
  const BlockNode* block = state.block();
  if (!block || !is_strict_inlinable(state.schedule.func(), *block)) return false;
  return !is_param(state.schedule.func(), block->writes[0].buffer.get());
}

}  // namespace

constinit const DerivationRule skip_rule{
    "skip", 1, [](const SketchState& state) { return !can_be_inlined(state) && !state.has_cache_stage(); },
    [](const SketchState& state) -> Result<std::vector<SketchState>> {
      SketchState next = state;
      --next.working;
      return std::vector{std::move(next)};
    }};

}  // namespace fettle
