#include "generations/ansor/sketch/winograd.h"

#include "generations/metaschedule/schedule_rule.h"
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

}  // namespace fettle
