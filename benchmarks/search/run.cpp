#include "search/run.h"

#include <fmt/format.h>

#include "codegen/build.h"
#include "cost/predict/micro_kernel_table.h"
#include "database/sqlite_database.h"
#include "generations/registry.h"
#include "tune/tuner.h"

namespace fettle::bench {
namespace {

// In the database: how far the search of a task got before it knew no more.
std::string ended_key(const TaskKey& key) { return "search ended " + key.workload.hash.hex() + ' ' + key.versions; }

Result<std::unique_ptr<Database>> open(const SearchMode& mode, uint64_t seed, const SearchRun& run) {
  return open_sqlite_database(records_file(run.folder, mode.name, seed));
}

Result<Curve> curve_in(Database& database, const SearchTask& task, const SearchMode& mode, const SearchRun& run) {
  const TaskKey key = key_of(task, run);
  FETTLE_TRY(const std::vector<Record> records, database.records(key));
  FETTLE_TRY(const auto ended, database.fact(key.fingerprint.hex(), ended_key(key)));
  Curve curve = read_curve(records, mode.from_default);
  curve.exhausted = ended.has_value();
  return curve;
}

}  // namespace

TaskKey key_of(const SearchTask& task, const SearchRun& run) {
  return make_task_key(task.program, run.target, run.threads, program_versions());
}

Result<Curve> known_curve(const SearchTask& task, const SearchMode& mode, uint64_t seed, const SearchRun& run) {
  if (!std::filesystem::exists(records_file(run.folder, mode.name, seed))) return Curve{};
  FETTLE_TRY(const auto database, open(mode, seed, run));
  return curve_in(*database, task, mode, run);
}

Result<> search_on(const SearchTask& task, const SearchMode& mode, uint64_t seed, int64_t trials, const SearchRun& run,
                   const Space& space, Runner& runner) {
  FETTLE_TRY(const auto database, open(mode, seed, run));
  FETTLE_TRY(const Curve known, curve_in(*database, task, mode, run));
  const TaskKey key = key_of(task, run);
  const std::string machine = key.fingerprint.hex();
  if (known.trials >= trials || known.exhausted) return {};
  const CostModelDef& learner = *find_cost_model(mode.cost_model);
  const auto model = learner.make(seed);
  if (!run.model.empty()) FETTLE_TRY_VOID(model->load(run.model));
  TuneOptions options;
  options.seed = seed;
  options.run = draw_run_id();
  options.max_trials = trials;
  options.batch = mode.batch;
  options.space = &space;
  options.strategy = find_strategy(mode.strategy);
  options.describe = learner.describe(std::make_shared<const Target>(run.target), run.threads, run.micro_kernels);
  if (learner.describe_unpredicted)
    options.describe_unpredicted =
        learner.describe_unpredicted(std::make_shared<const Target>(run.target), run.threads, run.micro_kernels);
  options.micro_kernels = run.micro_kernels;
  options.start_from_default = mode.from_default;
  options.train_each_batch = mode.as_published;
  options.confirm_each_best = mode.as_published;
  // Of their thousands of candidates a batch, most of the time is making them; which are made does not depend on it.
  if (mode.as_published) options.search_threads = run.threads;
  options.stop = run.stop;
  // Every trial is wanted: nothing is given up.
  options.scheduler.patience = 1 << 20;
  options.scheduler.at_bound = 0;
  options.scheduler.negligible = 0;
  options.scheduler.max_trials = trials;
  FETTLE_TRY(const TaskReport report,
             tune_task(task.program, run.target, run.threads, *database, runner, *model, options));
  const bool stopped = run.stop && run.stop->load();
  if (!stopped && report.trials < trials)
    FETTLE_TRY_VOID(
        database->set_fact(machine, ended_key(key), std::vector<double>{static_cast<double>(report.trials)}));
  return {};
}

}  // namespace fettle::bench
