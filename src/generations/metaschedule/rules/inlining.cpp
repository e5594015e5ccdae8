// Blocks that become part of others.

#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/scheduled.h"
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

ScheduleRule auto_inline(AutoInlineOptions options) {
  return {"auto_inline",
          [options](const TuneContext&, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            const Func func = s.func();
            const BlockNode& node = *find_block(func->body, name);
            if (is_scheduled(node)) return std::vector{s};
            if (node.writes.size() == 1) {
              const auto readers = consumers_of(func.root(), node.writes[0].buffer.get());
              if (std::ranges::any_of(readers, [](const BlockNode* reader) { return is_scheduled(*reader); }))
                return std::vector{s};
            }
            const bool operand =
                options.operands &&
                (is_padding(node) || (is_strict_inlinable(func, node) && is_operand_of_product(func, node)));
            Schedule inlined = s;
            if (options.into_consumer && !operand && (!options.strict || is_strict_inlinable(func, node)) &&
                try_inline(inlined, name))
              return std::vector{std::move(inlined)};
            if (operand && try_inline(inlined, name)) return std::vector{s, std::move(inlined)};
            if (options.into_producer && try_inline_into_producer(inlined, name))
              return std::vector{std::move(inlined)};
            return std::vector{s};
          }};
}

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
