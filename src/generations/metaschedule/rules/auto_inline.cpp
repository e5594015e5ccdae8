#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/inline.h"

namespace fettle {

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

}  // namespace fettle
