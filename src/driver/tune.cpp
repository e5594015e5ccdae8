#include "driver/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "codegen/device_def.h"
#include "codegen/object_cache.h"
#include "cost/cost_model.h"
#include "cost/predict/micro_kernel_table.h"
#include "driver/bench.h"
#include "driver/compile.h"
#include "driver/kernel_costs.h"
#include "driver/open.h"
#include "generations/registry.h"
#include "graph/plan/plan.h"
#include "measure/local_measurer.h"
#include "measure/neighbours.h"
#include "records/preference.h"
#include "tune/describe.h"

namespace fettle {
namespace {

/// The whole model is timed for so long at the end, and once more where the two are this close.
constexpr double kVerifySeconds = 1.5;
constexpr double kClose = 0.02;
/// The same with some tasks' defaults; a task keeps its default where it takes so much longer inside the model.
constexpr double kMixedSeconds = 1;
constexpr double kSlowerInside = 1.01;
/// Compiling the tuned model, relative to the untuned one, whose schedules have to be constructed.
constexpr double kCompileAgain = 0.7;
/// Of a budget, at most, for compiling and timing the whole model.
constexpr double kVerifyShare = 0.4;

constexpr const char* kMicroKernelTable = "micro-kernel table";

CompileOptions plain_options(const TuneModelOptions& options) {
  CompileOptions compile;
  compile.target = options.target;
  compile.threads = options.threads;
  compile.max_error_bound = options.max_error_bound;
  compile.kernel_sources = options.kernel_sources;
  return compile;
}

/// The whole model with what was found, beside the same with its defaults.
class TunedCheck {
 public:
  /// `deadline_s`, `elapsed`: when all must be done, and what time it is.
  TunedCheck(Plans& plans, const CompiledModel& untuned, const Plan& plan, std::shared_ptr<Database> database,
             const TuneModelOptions& options, double deadline_s, std::function<double()> elapsed)
      : plans_(plans),
        plan_(plan),
        database_(std::move(database)),
        options_(options),
        deadline_s_(deadline_s),
        elapsed_(std::move(elapsed)),
        untuned_(untuned) {}

  /// Times both, and decides for the model: choice.untuned and choice.defaults.
  Result<> run(TuneModelResult& result, ModelChoice& choice) {
    choice.defaults.clear();
    FETTLE_TRY_VOID(run_untuned());
    FETTLE_TRY(Contender tuned, compiled({}));
    result.other_schedules = other_schedules(tuned);
    if (result.other_schedules == 0) {  // the same model twice: there is nothing to compare
      FETTLE_TRY(const Times one, timed({&*baseline_}, kVerifySeconds));
      result.untuned_ms = result.tuned_ms = one.median_ms[0];
      choice.untuned = false;
      return {};
    }
    FETTLE_TRY(const Times both, timed({&*baseline_, &tuned}, kVerifySeconds));
    double ratio = both.compared_ms[1] / both.compared_ms[0];
    result.untuned_ms = both.median_ms[0];
    result.tuned_ms = both.median_ms[1];
    // Caches and threads are shared with other kernels here, which single measurements do not see.
    FETTLE_TRY(const std::vector<Digest> slower, slower_inside(tuned));
    // Where each is slower, what would be compiled is the untuned model, to which `both` compared it.
    const auto& tasks = tuned.compiled.tasks();
    const auto recorded = std::count_if(tasks.begin(), tasks.end(), [](const TaskInfo& task) { return task.tuned; });
    const bool some = !slower.empty() && static_cast<int64_t>(slower.size()) < recorded;
    if (some && left_s() > compile_s_ + kMixedSeconds) {
      FETTLE_TRY(Contender mixed, compiled(slower));
      FETTLE_TRY(const Times three, timed({&*baseline_, &tuned, &mixed}, kMixedSeconds));
      if (three.compared_ms[2] < three.compared_ms[1]) {
        choice.defaults = slower;
        result.kept_defaults = static_cast<int>(slower.size());
        result.other_schedules = other_schedules(mixed);
        result.untuned_ms = three.median_ms[0];
        result.tuned_ms = three.median_ms[2];
        ratio = three.compared_ms[2] / three.compared_ms[0];
      }
    }
    result.kept_untuned = choice.untuned = ratio > 1;
    if (choice.untuned) {
      choice.defaults.clear();
      result.kept_defaults = result.other_schedules = 0;
    }
    return {};
  }

 private:
  struct Contender {
    CompiledModel compiled;
    ModelContext context;
    std::vector<ModelContext> others;  // of the other streams
  };
  struct Times {
    std::vector<double> compared_ms;  // the fastest; with others at once, the median
    std::vector<double> median_ms;
  };

  double left_s() const { return deadline_s_ - elapsed_(); }

  /// Tasks that the untuned model has not, or with another schedule.
  int other_schedules(const Contender& contender) const {
    std::map<std::string, std::string> defaults;
    for (const TaskInfo& task : untuned_.tasks()) defaults[task.hash] = task.trace;
    int others = 0;
    for (const TaskInfo& task : contender.compiled.tasks()) {
      const auto known = defaults.find(task.hash);
      others += known == defaults.end() || known->second != task.trace;
    }
    return others;
  }

  Result<> run_untuned() {
    FETTLE_TRY(Contender made, instantiated(untuned_));
    baseline_.emplace(std::move(made));
    FETTLE_TRY(inputs_, random_inputs(baseline_->context.model(), options_.seed, typical_shapes(*plans_.graph())));
    return {};
  }

  Result<Contender> instantiated(CompiledModel compiled) const {
    FettleOptions run{};
    run.threads = options_.threads;
    run.streams = options_.target.streams;
    FETTLE_TRY(Model model, compiled.instantiate(run));
    FETTLE_TRY(ModelContext context, model.make_context());
    Contender contender{std::move(compiled), std::move(context), {}};
    for (int stream = 1; stream < options_.target.streams; ++stream) {
      FETTLE_TRY(ModelContext other, model.make_context());
      contender.others.push_back(std::move(other));
    }
    return contender;
  }

  /// The other streams, on which the contender that is timed runs as well; entry i is contender i.
  Result<std::unique_ptr<Neighbours>> other_streams(const std::vector<Contender*>& contenders) {
    std::vector<std::vector<Neighbours::Call>> calls(contenders.front()->others.size());
    for (Contender* contender : contenders) {
      for (size_t i = 0; i < calls.size(); ++i) {
        ModelContext& context = contender->others[i];
        FETTLE_TRY(std::vector<NamedTensor> made, context.make_outputs(inputs_));
        auto outputs = std::make_shared<std::vector<NamedTensor>>(std::move(made));
        calls[i].push_back([this, &context, outputs] { return context.run_into(inputs_, *outputs) ? 0 : 1; });
      }
    }
    return Neighbours::start(std::move(calls));
  }

  /// What `work` comes to while the other streams run this contender.
  template <class Work>
  static auto beside(Neighbours& others, int contender, const Work& work) -> decltype(work()) {
    others.turn_to(contender);
    auto result = work();
    if (result && others.status() != 0) return fail(ErrorCode::E710, "a call on another stream failed");
    return result;
  }

  /// With what the database knows, but these tasks with their defaults.
  Result<Contender> compiled(const std::vector<Digest>& defaults) {
    const double begin = elapsed_();
    CompileOptions compile = plain_options(options_);
    compile.layout = plan_.layout;
    compile.fused = plan_.fused;
    compile.find_trace = except(defaults, best_traces(database_, options_.target, options_.threads,
                                                      options_.max_error_bound, options_.kernel_sources));
    FETTLE_TRY(CompiledModel made, compile_model(plans_, compile));
    FETTLE_TRY(Contender contender, instantiated(std::move(made)));
    compile_s_ = elapsed_() - begin;
    return contender;
  }

  /// Interleaved; once more where the last is close to the first, and time is left.
  Result<Times> timed(const std::vector<Contender*>& contenders, double seconds) {
    FETTLE_TRY(const std::unique_ptr<Neighbours> others, other_streams(contenders));
    std::vector<TimedWork> works;
    for (Contender* c : contenders) {
      const int number = static_cast<int>(works.size());
      works.push_back({"", [&others, number, alone = timed_model("", c->context, inputs_)](int runs) {
                         return beside(*others, number, [&] { return alone.time(runs); });
                       }});
    }
    Times times{std::vector<double>(works.size(), std::numeric_limits<double>::infinity()),
                std::vector<double>(works.size())};
    for (int turn = 0; turn < 2; ++turn) {
      const double most = std::max(0.05, std::min(5 * seconds / 2, left_s() - 0.1));
      FETTLE_TRY(const std::vector<Latency> latencies,
                 time_interleaved(works, {.seconds = std::min(seconds / 2, most), .max_seconds = most}));
      for (size_t i = 0; i < works.size(); ++i) {
        times.median_ms[i] = latencies[i].median_ms;
        times.compared_ms[i] =
            std::min(times.compared_ms[i], has_others() ? latencies[i].median_ms : latencies[i].min_ms);
      }
      if (left_s() <= 0.2 || std::abs(times.compared_ms.back() / times.compared_ms.front() - 1) > kClose) break;
    }
    return times;
  }

  /// Tasks whose recorded schedule takes longer than the default inside the model, in every one of some rounds.
  Result<std::vector<Digest>> slower_inside(Contender& tuned) {
    constexpr int kRounds = 3, kRuns = 4;
    FETTLE_TRY(const std::unique_ptr<Neighbours> others, other_streams({&*baseline_, &tuned}));
    std::vector<int> votes(plan_.workloads.size(), 0);
    for (int round = 0; round < kRounds; ++round) {
      if (left_s() <= 0.2) return std::vector<Digest>();
      FETTLE_TRY(const auto before, beside(*others, 0, [&] { return call_times(baseline_->context, kRuns); }));
      FETTLE_TRY(const auto after, beside(*others, 1, [&] { return call_times(tuned.context, kRuns); }));
      std::vector<double> sums(2 * plan_.workloads.size(), 0);
      for (const PlannedCall& call : plan_.calls) {
        const auto a = before.find(call.name), b = after.find(call.name);
        const auto w = static_cast<size_t>(call.workload);
        if (a == before.end() || b == after.end()) continue;
        sums[2 * w] += a->second;
        sums[2 * w + 1] += b->second;
      }
      for (size_t w = 0; w < votes.size(); ++w)
        votes[w] += sums[2 * w] > 0 && sums[2 * w + 1] > kSlowerInside * sums[2 * w];
    }
    std::vector<Digest> slower;
    for (const TaskInfo& info : tuned.compiled.tasks())
      for (size_t w = 0; w < votes.size(); ++w)
        if (info.tuned && votes[w] == kRounds && plan_.workloads[w].hash.hex() == info.hash)
          slower.push_back(plan_.workloads[w].hash);
    return slower;
  }

  /// Whether copies run at once. Then a run is the fastest at moments when the system has stopped the copies, so that
  /// medians and means count.
  bool has_others() const { return options_.target.streams > 1; }

  /// The fastest of each call, ns; with others at once, the mean.
  Result<std::map<std::string, double>> call_times(ModelContext& context, int runs) {
    FETTLE_TRY(const std::vector<KernelTime> times, profile_model(context, inputs_, runs, nullptr));
    std::map<std::string, double> found;
    for (const KernelTime& time : times)
      found[time.name] =
          static_cast<double>(has_others() ? time.total_ns / std::max<int64_t>(time.calls, 1) : time.min_ns);
    return found;
  }

  Plans& plans_;
  const Plan& plan_;
  std::shared_ptr<Database> database_;
  const TuneModelOptions& options_;
  double deadline_s_;
  std::function<double()> elapsed_;
  CompiledModel untuned_;
  std::optional<Contender> baseline_;
  std::vector<NamedTensor> inputs_;
  double compile_s_ = 0;
};

/// The table that earlier tunings into this database used, so that this one goes on from where they ended; else the
/// machine's.
Result<MicroKernelTable> micro_kernel_table(Database& database, const TuneModelOptions& options) {
  const std::string machine = options.target.fingerprint().hex();
  FETTLE_TRY(const auto fact, database.fact(machine, kMicroKernelTable));
  if (fact)
    if (auto known = MicroKernelTable::from_numbers(*fact)) return known;
  if (options.elsewhere) {
    FETTLE_TRY(MicroKernelTable table, MicroKernelTable::from_numbers(options.micro_kernels));
    FETTLE_TRY_VOID(database.set_fact(machine, kMicroKernelTable, options.micro_kernels));
    return table;
  }
  FETTLE_TRY(MicroKernelTable table,
             MicroKernelTable::load_or_measure(options.target,
                                               micro_kernel_table_file(options.target, options.cache_folder).string()));
  FETTLE_TRY_VOID(database.set_fact(machine, kMicroKernelTable, table.to_numbers()));
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

std::filesystem::path micro_kernel_table_file(const Target& target, const std::filesystem::path& cache_folder) {
  const std::filesystem::path folder = cache_folder.empty() ? default_cache_folder() : cache_folder;
  return folder.empty() ? folder : folder / ("micro-kernels-" + target.fingerprint().hex().substr(0, 16));
}

Result<TuneModelResult> tune_model(const Graph& graph, std::shared_ptr<Database> database,
                                   const TuneModelOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const auto say = [&](const std::string& line) {
    if (options.say) options.say(line);
  };
  const bool has_threads = options.target.has_threads();
  std::optional<MicroKernelTable> micro_kernels;
  if (!has_threads) {
    say("micro-kernel table of this machine");
    if (auto known = micro_kernel_table(*database, options))
      micro_kernels = std::move(*known);
    else
      say("no micro-kernel table: " + known.error().to_string());
  }
  const MicroKernelTable* table = micro_kernels ? &*micro_kernels : nullptr;

  Plans plans(graph);
  FETTLE_TRY(const auto known, find_choice(plans, *database, options.target, options.threads, options.kernel_sources));
  KnownKernelCosts costs(options.target, table, database.get(), options.max_error_bound, options.kernel_sources);
  const auto known_plan = [&]() -> Result<const Plan*> {
    FETTLE_TRY(std::vector<int> fused, fused_numbers(graph, *known));
    return plans.get({.layout = known->layout, .fused = std::move(fused)});
  };
  const auto new_plan = [&]() -> Result<const Plan*> {
    // Of GPUs' kernels nothing is predicted: the plan is the one of an untuned compilation.
    if (has_threads) return plans.get();
    return choose_plan(plans, options.threads, costs);
  };
  FETTLE_TRY(const Plan* const planned, known ? known_plan() : new_plan());
  const Plan& plan = *planned;
  ModelChoice choice{plan.layout, known && known->untuned, {}, known ? known->defaults : std::vector<Digest>()};
  FETTLE_TRY(choice.fused, fused_hashes(graph, plan.layout, plan.fused));
  FETTLE_TRY_VOID(keep_choice(plans, *database, options.target, options.threads, choice, options.kernel_sources));

  std::vector<TuneTask> tasks;
  const auto add_task = [&](const Func& func, const Digest& hash, int count) {
    tasks.push_back({func, static_cast<double>(count), fmt::format("{} {}", func->name, hash.hex().substr(0, 8))});
  };
  for (const PlannedWorkload& workload : plan.workloads) add_task(workload.func, workload.hash, workload.count);
  for (const PlannedWorkload& workload : plan.workloads)
    for (const SizeClass& of : workload.classes) add_task(of.func, of.hash, workload.count);
  TuningRun run = describe_run(graph, plan, tasks, options);
  FETTLE_TRY(const DeviceDef* const device, device_of(options.target));
  if (!options.elsewhere && !options.runner && device->name) {
    FETTLE_TRY(const std::string name, device->name());
    run.machine = name + ": " + run.machine;
  }
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
  std::optional<CompiledModel> untuned;
  double verify_s = 0;
  if (!options.elsewhere) {
    say("compiling the untuned model");
    const double compiling = elapsed();
    FETTLE_TRY(untuned, compile_model(plans, plain_options(options)));
    verify_s = std::min(kCompileAgain * (elapsed() - compiling) + kVerifySeconds + 0.5, kVerifyShare * options.seconds);
  }

  LocalMeasurerOptions measuring;
  measuring.worker_path = options.worker_path;
  measuring.target = options.target;
  measuring.threads = options.threads;
  std::unique_ptr<LocalMeasurer> local;
  if (!options.runner) {
    FETTLE_TRY(local, LocalMeasurer::start(std::move(measuring)));
  }
  Runner& runner = options.runner ? *options.runner : *local;
  const CostModelDef& learner = options.learner ? *options.learner : cost_models().front();
  const std::unique_ptr<CostModel> model = learner.make(options.seed);
  if (std::error_code ignored; !options.cost_model.empty() && std::filesystem::exists(options.cost_model, ignored))
    FETTLE_TRY_VOID(model->load(options.cost_model.string()));

  TuneOptions tuning;
  tuning.seed = options.seed;
  tuning.search_threads = options.search_threads > 0 ? options.search_threads : available_threads();
  tuning.space = options.space;
  tuning.max_error_bound = options.max_error_bound;
  tuning.kernel_sources = options.kernel_sources;
  tuning.strategy = options.strategy;
  tuning.make_scheduler = options.make_scheduler;
  if (options.batch > 0) tuning.batch = options.batch;
  tuning.train_each_batch = options.train_each_batch;
  tuning.run = run.id;
  tuning.max_seconds = std::max(1.0, options.seconds - elapsed() - verify_s);
  tuning.max_trials = options.trials;
  const auto target = std::make_shared<const Target>(options.target);
  tuning.describe = learner.describe(target, options.threads, table);
  if (learner.describe_unpredicted)
    tuning.describe_unpredicted = learner.describe_unpredicted(target, options.threads, table);
  tuning.micro_kernels = table;
  tuning.stop = options.stop;
  if (table) tuning.peak_flops = table->costs().hz * table->costs().fma_per_cycle * 2 * options.target.vector_lanes(4);
  TuneModelResult result;
  FETTLE_TRY(result.report, tune_tasks(std::move(tasks), options.target, options.threads, *database, runner, *model,
                                       tuning, options.progress));
  result.run = run.id;
  FETTLE_TRY_VOID(keep_run(result));
  if (!options.cost_model.empty()) FETTLE_TRY_VOID(model->save(options.cost_model.string()));
  if (result.report.stopped || options.elsewhere) return result;

  say("timing the whole model");
  TunedCheck verification(plans, *untuned, plan, database, options, options.seconds, elapsed);
  if (auto verified = verification.run(result, choice); !verified) {
    // Made-up inputs do not fit a model whose sizes are what its inputs hold: what was found is kept, and not compared.
    if (verified.error().code != ErrorCode::E705) return fail(std::move(verified.error()));
    say("the whole model cannot be timed with random inputs: " + verified.error().message);
    return result;
  }
  FETTLE_TRY_VOID(keep_choice(plans, *database, options.target, options.threads, choice, options.kernel_sources));
  FETTLE_TRY_VOID(keep_run(result));
  return result;
}

}  // namespace fettle
