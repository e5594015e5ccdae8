#include "tune/metaschedule/schedule_rule.h"
#include "tune/sketch/filtered_convolution.h"
#include "tune/space/algorithm.h"

namespace fettle {

ScheduleRule minimal_filtering() {
  return {"minimal_filtering",
          [](const TuneContext& context, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            const auto convolution = filterable_convolution(s.func());
            std::vector<Schedule> all = {s};
            if (!convolution || convolution->block != name) return all;
            for (Schedule& filtered : filtered_by_tiles(s, context.threads)) all.push_back(std::move(filtered));
            return all;
          }};
}

}  // namespace fettle
