#include "driver/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "cost/atom_table.h"
#include "cost/cost_model.h"
#include "driver/bench.h"
#include "driver/compile.h"
#include "driver/kernel_costs.h"
#include "driver/open.h"
#include "driver/preference.h"
#include "graph/plan/plan.h"
#include "measure/local_measurer.h"
#include "measure/object_cache.h"
#include "tune/describe.h"

namespace fettle {
namespace {

/// The whole model is timed for so long at the end, and once more where the two are this close.
constexpr double kVerifySeconds = 1.5;
constexpr double kClose = 0.02;
/// Compiling the tuned model, relative to the untuned one, whose schedules have to be constructed.
constexpr double kCompileAgain = 0.7;
/// Of a budget, at most, for compiling and timing the whole model.
constexpr double kVerifyShare = 0.4;

constexpr const char* kAtomTable = "atom table";

CompileOptions plain_options(const TuneModelOptions& options) {
  CompileOptions compile;
  compile.target = options.target;
  compile.threads = options.threads;
  return compile;
}

/// Times of one run, tuned and untuned, interleaved. Sets fastest_ratio: tuned over untuned, each at its fastest, which
/// what else the machine does disturbs least.
Result<> time_both(const Graph& graph, const CompiledModel& untuned, const Plan& plan,
                   const std::shared_ptr<Database>& database, const TuneModelOptions& options, double seconds,
                   TuneModelResult& result, double* fastest_ratio) {
  CompileOptions compile = plain_options(options);
  compile.layout = plan.layout;
  compile.joined = plan.joined;
  compile.find_trace = best_traces(database, options.target, options.threads);
  FETTLE_TRY(const CompiledModel tuned, compile_model(graph, compile));
  FettleOptions run{};
  run.threads = options.threads;
  FETTLE_TRY(Model untuned_model, untuned.instantiate(run));
  FETTLE_TRY(Model tuned_model, tuned.instantiate(run));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, random_inputs(untuned_model, options.seed));
  double fastest_ms[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (int turn = 0; turn < 2; ++turn) {
    FETTLE_TRY(const std::vector<Latency> latencies,
               time_interleaved(
                   {timed_model("untuned", untuned_model, inputs), timed_model("tuned", tuned_model, inputs)},
                   {.seconds = seconds / 2}));
    result.untuned_ms = latencies[0].median_ms;
    result.tuned_ms = latencies[1].median_ms;
    for (int i = 0; i < 2; ++i) fastest_ms[i] = std::min(fastest_ms[i], latencies[static_cast<size_t>(i)].min_ms);
    *fastest_ratio = fastest_ms[1] / fastest_ms[0];
    if (std::abs(*fastest_ratio - 1) > kClose) break;
  }
  return {};
}

/// The table that earlier tunings into this database used, so that this one goes on from where they ended; else the
/// machine's.
Result<AtomTable> atom_table(Database& database, const TuneModelOptions& options) {
  const std::string machine = options.target.fingerprint().hex();
  FETTLE_TRY(const auto fact, database.fact(machine, kAtomTable));
  if (fact)
    if (auto known = AtomTable::from_numbers(*fact)) return known;
  FETTLE_TRY(AtomTable table, AtomTable::load_or_measure(
                                  options.target, atom_table_file(options.target, options.cache_folder).string()));
  FETTLE_TRY_VOID(database.set_fact(machine, kAtomTable, table.to_numbers()));
  return table;
}

/// What is known of the run before it begins.
TuningRun describe_run(const Graph& graph, const Plan& plan, const std::vector<TuneTask>& tasks,
                       const TuneModelOptions& options) {
  TuningRun run;
  run.id = draw_run_id();
  run.model = options.name.empty() ? graph.name() : options.name;
  run.target_features = options.target.feature_key();
  run.fingerprint = options.target.fingerprint();
  run.threads = options.threads;
  run.versions = program_versions();
  run.machine = describe(options.target);
  run.created_ns = now_ns();
  run.seed = options.seed;
  for (const TuneTask& task : tasks) run.tasks.push_back({make_workload(task.workload), task.label, task.weight, {}});
  for (const PlannedCall& call : plan.calls)
    run.tasks[static_cast<size_t>(call.workload)].calls.push_back({call.name, one_a_line(call.provenance)});
  return run;
}

}  // namespace

std::filesystem::path atom_table_file(const Target& target, const std::filesystem::path& cache_folder) {
  const std::filesystem::path folder = cache_folder.empty() ? default_cache_folder() : cache_folder;
  return folder / ("atoms-" + target.fingerprint().hex().substr(0, 16));
}

Result<TuneModelResult> tune_model(const Graph& graph, std::shared_ptr<Database> database,
                                   const TuneModelOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto say = [&](const std::string& line) {
    if (options.say) options.say(line);
  };
  say("atom table of this machine");
  auto atoms = atom_table(*database, options);
  if (!atoms) say("no atom table: " + atoms.error().to_string());
  const AtomTable* table = atoms ? &*atoms : nullptr;

  FETTLE_TRY(const auto known, find_choice(graph, *database, options.target, options.threads));
  KnownKernelCosts costs(options.target, table, database.get());
  FETTLE_TRY(const Plan plan, known ? make_plan(graph, {.layout = known->layout, .joined = known->joined})
                                    : choose_plan(graph, options.threads, costs));
  ModelChoice choice{plan.layout, known && known->untuned, plan.joined, known ? known->defaults : std::vector<int>()};
  FETTLE_TRY_VOID(keep_choice(graph, *database, options.target, options.threads, choice));

  std::vector<TuneTask> tasks;
  for (const PlannedWorkload& workload : plan.workloads)
    tasks.push_back({workload.func, static_cast<double>(workload.count),
                     fmt::format("{} {}", workload.func->name, workload.hash.hex().substr(0, 8))});
  TuningRun run = describe_run(graph, plan, tasks, options);
  FETTLE_TRY_VOID(database->keep_run(run));
  const auto keep_run = [&](const TuneModelResult& result) {
    run.seconds = elapsed();
    run.stopped = result.report.stopped;
    run.untuned_ms = result.untuned_ms;
    run.tuned_ms = result.tuned_ms;
    run.kept_untuned = result.kept_untuned;
    return database->keep_run(run);
  };
  say(fmt::format("{} tasks, {} calls; images with {}", tasks.size(), plan.calls.size(), to_string(plan.layout)));

  // What the tuned model is compared with; how long it takes says what to keep for that.
  say("compiling the untuned model");
  const double compiling = elapsed();
  FETTLE_TRY(const CompiledModel untuned, compile_model(graph, plain_options(options)));
  const double verify_s =
      std::min(kCompileAgain * (elapsed() - compiling) + kVerifySeconds + 0.5, kVerifyShare * options.seconds);

  LocalMeasurerOptions measuring;
  measuring.target = options.target;
  measuring.threads = options.threads;
  FETTLE_TRY(const std::unique_ptr<LocalMeasurer> runner, LocalMeasurer::start(std::move(measuring)));
  const std::unique_ptr<CostModel> model = make_boosted_trees(options.seed);

  TuneOptions tuning;
  tuning.seed = options.seed;
  tuning.run = run.id;
  tuning.max_seconds = std::max(1.0, options.seconds - elapsed() - verify_s);
  tuning.max_trials = options.trials;
  tuning.describe = describe_by_lowering(std::make_shared<const Target>(options.target), options.threads, table);
  tuning.atoms = table;
  tuning.stop = options.stop;
  if (table) tuning.peak_flops = table->costs().hz * table->costs().fma_per_cycle * 2 * options.target.vector_lanes(4);
  TuneModelResult result;
  FETTLE_TRY(result.report, tune_tasks(std::move(tasks), options.target, options.threads, *database, *runner, *model,
                                       tuning, options.progress));
  result.run = run.id;
  FETTLE_TRY_VOID(keep_run(result));
  if (result.report.stopped) return result;

  say("timing the whole model");
  double ratio = 1;
  FETTLE_TRY_VOID(time_both(graph, untuned, plan, database, options, kVerifySeconds, result, &ratio));
  result.kept_untuned = ratio > 1;
  choice.untuned = result.kept_untuned;
  FETTLE_TRY_VOID(keep_choice(graph, *database, options.target, options.threads, choice));
  FETTLE_TRY_VOID(keep_run(result));
  return result;
}

}  // namespace fettle
