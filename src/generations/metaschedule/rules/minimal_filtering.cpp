#include "generations/ansor/sketch/filtered_convolution.h"
#include "generations/metaschedule/schedule_rule.h"
#include "tune/space/algorithm.h"

namespace fettle {
namespace {

std::vector<FilteringWay> ways(const Schedule& s, const std::string& block) {
  const auto convolution = filterable_convolution(s.func());
  return convolution && convolution->block == block ? ways_to_filter(s) : std::vector<FilteringWay>();
}

// 0: as it is written.
Result<Schedule> alternative(const TuneContext& context, const Schedule& s, const std::string& block, size_t number) {
  if (number == 0) return s;
  const auto all = ways(s, block);
  if (number > all.size()) return fail(ErrorCode::E235, "no such alternative", "minimal_filtering");
  return filtered_by(s, all[number - 1], context.threads);
}

}  // namespace

ScheduleRule minimal_filtering() {
  ScheduleRule rule;
  rule.name = "minimal_filtering";
  rule.count = [](const TuneContext&, const Schedule& s, const std::string& block) {
    return 1 + ways(s, block).size();
  };
  rule.alternative = alternative;
  rule.apply = [](const TuneContext& context, const Schedule& s,
                  const std::string& block) -> Result<std::vector<Schedule>> {
    std::vector<Schedule> all = {s};
    for (const FilteringWay& way : ways(s, block))
      if (auto filtered = filtered_by(s, way, context.threads)) all.push_back(std::move(*filtered));
    return all;
  };
  return rule;
}

}  // namespace fettle
