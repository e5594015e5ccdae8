#include "tests/digests/subjects.h"

#include <fmt/format.h>

#include <set>

#include "driver/load.h"
#include "graph/plan/plan.h"
#include "ir/text.h"
#include "models/table.h"
#include "search/tasks.h"

namespace fettle::digests {

std::vector<Subject> search_subjects() {
  std::vector<Subject> subjects;
  for (const bench::SearchTask& task : bench::search_tasks())
    subjects.push_back({.name = task.name, .workload = to_text(task.program)});
  return subjects;
}

Result<std::vector<Subject>> model_subjects() {
  std::vector<Subject> subjects;
  std::set<Digest> known;
  FETTLE_TRY(const std::vector<bench::TableModel> models, bench::read_model_table());
  for (const bench::TableModel& model : models) {
    FETTLE_TRY(const Graph graph, load_model(model.small_file, model.shapes()));
    FETTLE_TRY(const Plan plan, make_plan(graph));
    for (const PlannedWorkload& planned : plan.workloads)
      if (known.insert(planned.hash).second)
        subjects.push_back({.name = fmt::format("{}: {} {}", model.name, std::string_view(planned.func->name),
                                                planned.hash.hex().substr(0, 8)),
                            .workload = to_text(planned.func),
                            .of_model = true});
  }
  return subjects;
}

}  // namespace fettle::digests
