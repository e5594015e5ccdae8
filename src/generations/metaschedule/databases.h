#pragma once
// MetaSchedule's databases beyond those of the database room (a file, memory, and the ordered union).

#include <functional>
#include <memory>
#include <vector>

#include "database/database.h"
#include "schedule/schedule.h"

namespace fettle {

/// Union: the best of all of them. Writes go to the first; facts and runs are those of the ordered union. At least one.
std::unique_ptr<Database> make_merged_database(std::vector<std::shared_ptr<Database>> databases);

/// ScheduleFnDatabase: the best record of a task is what `schedule` makes of its workload; nothing is known of its time
/// (0), and nothing is kept (E505). A failure of `schedule`: there is no record.
std::unique_ptr<Database> make_schedule_fn_database(std::function<Result<>(Schedule&)> schedule);

/// Called with each record, once it is kept.
struct MeasureCallback {
  std::string name;
  std::function<Result<>(const Record&)> apply;
};
/// As `database`, with the callbacks called in order. The first error is that of add.
std::unique_ptr<Database> make_observed_database(std::shared_ptr<Database> database,
                                                 std::vector<MeasureCallback> callbacks);

/// Keeps the record in a further database.
MeasureCallback add_to_database(std::shared_ptr<Database> database);
/// Updates the model with what was measured, in batches of `batch`; `features` describes a scheduled program. What is
/// timed again or checked teaches nothing.
class CostModel;
struct CandidateFeatures;
MeasureCallback update_cost_model(std::shared_ptr<CostModel> model,
                                  std::function<Result<CandidateFeatures>(const Func& scheduled)> features,
                                  size_t batch = 64);
/// Deletes compiled objects from the folder where measuring keeps them, the oldest first, as soon as there are more
/// than `most`.
MeasureCallback remove_build_artefact(std::string folder, size_t most = 0);

}  // namespace fettle
