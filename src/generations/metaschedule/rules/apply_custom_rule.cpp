#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"

namespace fettle {

ScheduleRule apply_custom_rule(std::map<std::string, ScheduleRule> rules) {
  return {"apply_custom_rule",
          [rules = std::move(rules)](const TuneContext& context, const Schedule& s,
                                     const std::string& block) -> Result<std::vector<Schedule>> {
            const BlockNode* node = find_block(s.func()->body, block);
            const Attribute* annotation = node->annotations.find(keys::kScheduleRule);
            const auto* name = annotation ? std::get_if<std::string>(annotation) : nullptr;
            if (!name || *name == "None") return std::vector{s};
            const auto rule = rules.find(*name);
            if (rule == rules.end()) return fail(ErrorCode::E241, "no rule " + *name, "apply_custom_rule");
            return rule->second.apply(context, s, block);
          }};
}

}  // namespace fettle
