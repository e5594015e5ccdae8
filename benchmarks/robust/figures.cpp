#include "robust/figures.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cost/cost_model.h"
#include "measure/worker/candidate.h"
#include "robust/processes.h"
#include "robust/subject.h"

namespace fettle::bench {
namespace {

constexpr int64_t kEvery = 4;

// What a candidate with this number should be recorded as.
ErrorCode expected(int64_t number) {
  switch (planned_by_id(kEvery, number)) {
    case Misbehaviour::kCrash:
    case Misbehaviour::kFork:
      return ErrorCode::E403;
    case Misbehaviour::kHang:
      return ErrorCode::E402;
    case Misbehaviour::kAllocate:
      return ErrorCode::E404;
    case Misbehaviour::kCorrupt:
      return ErrorCode::E405;
    default:
      return ErrorCode::kNone;
  }
}

/// Distinct schedules of a product of m rows, all right.
std::vector<std::string> schedules(int n) {
  std::vector<std::string> traces;
  for (int i = 0; i < n; ++i)
    traces.push_back(
        fmt::format("b0 = get_block(name=\"C\")\nl1, l2, l3 = get_loops(block=b0)\nl4, l5 = "
                    "split(loop=l1, factors=[-1, {}], tail=\"guard\")\nl6, l7 = split(loop=l2, "
                    "factors=[-1, {}], tail=\"guard\")\n",
                    1 + i % 29, 2 + i / 29));
  return traces;
}

LocalMeasurerOptions misbehaving(const std::filesystem::path& folder) {
  LocalMeasurerOptions options = small_measurer(folder);
  options.worker_args = {"--misbehave-every", std::to_string(kEvery)};
  options.worker_args_always = true;
  options.first_timeout_s = options.min_timeout_s = 2;  // what exhausts memory must come so far in time
  options.memory_bytes = 160 << 20;
  return options;
}

}  // namespace

InjectedOutcome inject(int candidates, const std::filesystem::path& folder) {
  InjectedOutcome outcome;
  auto runner = LocalMeasurer::start(misbehaving(folder));
  if (!runner || !(*runner)->set_workload(small_product(30, 48, 20))) {
    outcome.problem = "no worker";
    return outcome;
  }
  MeasureRequest request;
  request.check = true;
  request.timing.max_seconds = 0.004;
  const auto results = (*runner)->measure(schedules(candidates), request);
  if (!results) {
    outcome.problem = results.error().to_string();
    return outcome;
  }
  for (size_t i = 0; i < results->size(); ++i) {
    const ErrorCode wanted = expected(static_cast<int64_t>(i)), got = (*results)[i].error;
    ++outcome.candidates;
    if (wanted != ErrorCode::kNone) ++outcome.injected;
    if (wanted == got) continue;
    ++outcome.miscounted;
    if (outcome.problem.empty())
      outcome.problem = fmt::format("candidate {} is {} instead of {}: {}", i, error_info(got).name,
                                    error_info(wanted).name, (*results)[i].message);
  }

  auto again = LocalMeasurer::start(misbehaving(folder));
  if (!again) return outcome;
  const auto database = make_memory_database();
  const auto model = make_boosted_trees(0);
  TuneOptions options = small_tuning();
  options.max_trials = candidates / 2;
  options.check_all = true;
  const auto report = tune_task(small_product(30, 48, 20), detect_host(1), 1, *database, **again, *model, options);
  outcome.tuning_ended = report.has_value();
  if (!report) outcome.problem = report.error().to_string();
  if (report) {
    auto sane = LocalMeasurer::start(small_measurer(folder));
    if (sane && (*sane)->set_workload(small_product(30, 48, 20))) {
      const auto right = (*sane)->measure(std::vector<std::string>{report->best_trace}, request);
      outcome.best_is_right = right && right->front().ok() && right->front().checked && report->failed > 0;
    }
  }
  return outcome;
}

ReplayOutcome replay_recorded(int trials, const std::filesystem::path& folder) {
  ReplayOutcome outcome;
  const auto tune = [&](Runner& runner, int64_t max_trials) {
    const auto database = make_memory_database();
    const auto model = make_boosted_trees(7);
    TuneOptions options = small_tuning();
    options.seed = 7;
    options.max_trials = max_trials;
    options.scheduler.patience = 1000;
    std::vector<std::string> traces;
    const auto report = tune_tasks({{small_product(30, 48, 20), 2, "a"}, {small_product(61, 96, 40), 1, "b"}},
                                   detect_host(1), 1, *database, runner, *model, options);
    (void)database->for_each([&](const Record& record) -> Result<> {
      if (record.generation >= 0) traces.push_back(record.task.workload.text + record.trace);
      return {};
    });
    return report ? traces : std::vector<std::string>();
  };
  auto real = LocalMeasurer::start(small_measurer(folder));
  if (!real) return outcome;
  ReplayingRunner recorded(**real);
  const auto whole = tune(recorded, trials);
  outcome.measured = static_cast<int64_t>(whole.size());
  ReplayingRunner replayed(static_cast<const ReplayingRunner&>(recorded));
  const auto again = tune(replayed, trials);
  outcome.replayed = static_cast<int64_t>(again.size());
  for (size_t i = 0; i < std::max(whole.size(), again.size()); ++i)
    if (i >= whole.size() || i >= again.size() || whole[i] != again[i]) ++outcome.different;
  for (const int share : {10, 25, 50, 75, 95}) {
    ReplayingRunner shorter(static_cast<const ReplayingRunner&>(recorded));
    const auto part = tune(shorter, std::max(1, trials * share / 100));
    ++outcome.shorter;
    if (part.empty() || part.size() > whole.size() || !std::equal(part.begin(), part.end(), whole.begin()))
      ++outcome.not_prefix;
  }
  return outcome;
}

MemoryOutcome memory_of_many(int64_t made, int64_t measured, const std::filesystem::path& folder) {
  MemoryOutcome outcome;
  LocalMeasurerOptions measuring = small_measurer(folder);
  measuring.recycle_after = 1 << 30;  // what a worker holds is to be seen
  auto runner = LocalMeasurer::start(std::move(measuring));
  if (!runner) return outcome;
  const auto database = make_memory_database();  // holds the records; the same each time
  const auto model = make_boosted_trees(0);
  constexpr int kTasks = 24;
  std::vector<TuneTask> tasks;
  for (int i = 0; i < kTasks; ++i)
    tasks.push_back({small_product(51 + 16 * (i % 4), 160 + 64 * (i / 4), 96 + 9 * i), 1, "product"});
  TuneOptions options = small_tuning();
  options.max_trials = measured;
  options.scheduler.patience = 1 << 30;
  options.scheduler.max_trials = measured;
  options.scheduler.at_bound = 0;
  // Each batch makes two generations, neighbours and some at random.
  options.population = static_cast<int>(made * options.batch * 6 / measured / 5);
  const auto worker_mib = [&] {
    double most = 0;
    for (const int pid : (*runner)->worker_pids()) most = std::max(most, private_mib(pid));
    return most;
  };
  double tuner_at_quarter = 0, worker_at_quarter = 0;
  const auto report =
      tune_tasks(tasks, detect_host(1), 1, *database, **runner, *model, options, [&](const TuneProgress& progress) {
        if (tuner_at_quarter > 0 || progress.measured < measured / 4) return;
        tuner_at_quarter = private_mib(::getpid());
        worker_at_quarter = worker_mib();
      });
  if (!report) return outcome;
  outcome.made = report->points;
  outcome.measured = report->measured;
  outcome.tuner_mib = private_mib(::getpid());
  outcome.tuner_growth_mib = outcome.tuner_mib - tuner_at_quarter;
  outcome.worker_mib = worker_mib();
  outcome.worker_growth_mib = outcome.worker_mib - worker_at_quarter;
  return outcome;
}

}  // namespace fettle::bench
