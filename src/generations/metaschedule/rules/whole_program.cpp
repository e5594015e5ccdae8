// Rules that change the computation before others edit it.

#include "generations/ansor/sketch/row_lanes.h"
#include "generations/ansor/sketch/winograd.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/winograd.h"

namespace fettle {
namespace {

// 0: as it is written.
Result<Schedule> alternative(const TuneContext& context, const Schedule& s, const std::string& block, size_t number) {
  if (number == 0) return s;
  const auto all = winograd_convolution(s.func()) == block ? winograd_ways(s) : std::vector<WinogradWay>();
  if (number > all.size()) return fail(ErrorCode::E235, "no such alternative", "winograd");
  return by_winograd(s, all[number - 1], context.threads);
}

}  // namespace

ScheduleRule winograd() {
  ScheduleRule rule;
  rule.name = "winograd";
  rule.count = [](const TuneContext&, const Schedule& s, const std::string& block) {
    return winograd_convolution(s.func()) == block ? 1 + winograd_ways(s).size() : 1;
  };
  rule.alternative = alternative;
  rule.apply = [](const TuneContext& context, const Schedule& s,
                  const std::string& block) -> Result<std::vector<Schedule>> {
    std::vector<Schedule> all;
    if (winograd_convolution(s.func()) == block) all = winograd_schedules(s, context.threads);
    all.insert(all.begin(), s);
    return all;
  };
  return rule;
}

ScheduleRule rows_in_lanes() {
  return {"rows_in_lanes",
          [](const TuneContext& context, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            // For the whole program at once, by the last block.
            const std::vector<const BlockNode*> blocks = blocks_of(s.func().root());
            if (blocks.empty() || blocks.back()->name != name || context.target->has_threads()) return std::vector{s};
            Schedule split = s;
            FETTLE_TRY_VOID(split_rows_into_lanes(split));
            return std::vector{std::move(split)};
          }};
}

}  // namespace fettle
