#include <algorithm>

#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/inline.h"

namespace fettle {
namespace {

// One element, and nothing is read to make it.
bool is_constant_scalar(const Func& func, const BlockNode& block) {
  if (!block.reads.empty() || block.writes.size() != 1 || !single_store(block)) return false;
  const Buffer& buffer = block.writes[0].buffer;
  return !is_param(func, buffer.get()) &&
         std::ranges::all_of(buffer->shape, [](const Expr& extent) { return as_int(extent) && *as_int(extent) == 1; });
}

}  // namespace

ScheduleRule inline_constant_scalars() {
  return {"inline_constant_scalars",
          [](const TuneContext&, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            if (!is_constant_scalar(s.func(), *find_block(s.func()->body, name))) return std::vector{s};
            Schedule inlined = s;
            try_inline(inlined, name);
            return std::vector{std::move(inlined)};
          }};
}

}  // namespace fettle
