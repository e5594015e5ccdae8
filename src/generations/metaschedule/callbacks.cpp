#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cost/cost_model.h"
#include "generations/metaschedule/databases.h"
#include "ir/text.h"

namespace fettle {

MeasureCallback add_to_database(std::shared_ptr<Database> database) {
  return {"add_to_database", [database = std::move(database)](const Record& record) { return database->add(record); }};
}

MeasureCallback update_cost_model(std::shared_ptr<CostModel> model,
                                  std::function<Result<CandidateFeatures>(const Func& scheduled)> features,
                                  size_t batch) {
  struct Waiting {
    std::vector<CandidateFeatures> candidates;
    std::vector<double> seconds;
  };
  return {"update_cost_model",
          [model = std::move(model), features = std::move(features), batch,
           waiting = std::make_shared<Waiting>()](const Record& record) -> Result<> {
            if (record.generation < 0) return {};
            FETTLE_TRY(const Func workload, parse_func(record.task.workload.text));
            FETTLE_TRY(const ParsedTrace trace, parse_trace(record.trace));
            Schedule schedule(workload);
            FETTLE_TRY_VOID(replay(schedule, trace));
            FETTLE_TRY(CandidateFeatures described, features(schedule.func()));
            waiting->candidates.push_back(std::move(described));
            waiting->seconds.push_back(record.ok() ? record.median_s : INFINITY);
            if (waiting->seconds.size() < batch) return {};
            const Waiting whole = std::exchange(*waiting, {});
            return model->update(whole.candidates, whole.seconds);
          }};
}

MeasureCallback remove_build_artefact(std::string folder, size_t most) {
  return {"remove_build_artefact", [folder = std::move(folder), most](const Record&) -> Result<> {
            namespace fs = std::filesystem;
            std::error_code error;
            std::vector<std::pair<fs::file_time_type, fs::path>> files;
            for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
              if (it->is_regular_file(error)) files.emplace_back(it->last_write_time(error), it->path());
            std::ranges::sort(files);
            // Another process may delete them, too: what is gone is gone.
            for (size_t i = 0; i + most < files.size(); ++i) fs::remove(files[i].second, error);
            return {};
          }};
}

}  // namespace fettle
