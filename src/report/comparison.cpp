#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "driver/bench.h"
#include "target/target.h"

namespace fettle {
namespace {

double of_limit(const ReportedTask& task) { return task.best_s > 0 ? task.limit.seconds / task.best_s : 0; }

/// Of a model, by the times of its kernels in `runs` runs.
RunReport report_of(const Model& model, const std::vector<KernelTime>& times, int64_t runs, const Latency& latency) {
  const Target target = detect_host();
  RunReport report;
  report.run.model = model.info().name;
  report.run.threads = model.info().default_threads;
  report.run.machine = describe(target);
  report.run.fingerprint = target.fingerprint();
  report.run.tuned_ms = latency.median_ms;
  for (const KernelTime& time : times) {
    if (time.calls == 0) continue;
    const double seconds = static_cast<double>(time.total_ns) * 1e-9;
    ReportedTask task;
    task.task.workload.hash = digest_bytes(time.name + "\n" + time.origins);
    task.task.label = time.name;
    task.task.weight = static_cast<double>(time.calls) / static_cast<double>(runs);
    task.task.calls = {{time.name, time.origins}};
    task.best_s = seconds / static_cast<double>(time.calls);
    report.estimated_s += task.task.weight * task.best_s;
    report.tasks.push_back(std::move(task));
  }
  std::ranges::stable_sort(
      report.tasks, [](const auto& a, const auto& b) { return a.task.weight * a.best_s > b.task.weight * b.best_s; });
  return report;
}

}  // namespace

Comparison compare(const RunReport& before, const RunReport& after) {
  Comparison made{.before_s = before.estimated_s, .after_s = after.estimated_s};
  if (before.run.tuned_ms > 0 && after.run.tuned_ms > 0)
    made.before_s = before.run.tuned_ms * 1e-3, made.after_s = after.run.tuned_ms * 1e-3;
  std::unordered_map<Digest, const ReportedTask*> known;
  for (const ReportedTask& task : before.tasks) known.emplace(task.task.workload.hash, &task);
  double saved_s = 0;
  for (const ReportedTask& task : after.tasks) {
    const auto found = known.find(task.task.workload.hash);
    if (found == known.end()) {
      ++made.only_after;
      continue;
    }
    const ReportedTask& was = *found->second;
    ComparedTask one{.hash = task.task.workload.hash,
                     .label = task.task.label,
                     .before_s = was.best_s,
                     .after_s = task.best_s,
                     .of_limit_before = of_limit(was),
                     .of_limit_after = of_limit(task)};
    if (was.best_s > 0 && task.best_s > 0) one.saved_s = task.task.weight * (was.best_s - task.best_s);
    saved_s += one.saved_s;
    made.tasks.push_back(std::move(one));
  }
  made.only_before = before.tasks.size() - made.tasks.size();
  if (saved_s > 0)
    for (ComparedTask& task : made.tasks) task.share = task.saved_s / saved_s;
  std::ranges::stable_sort(made.tasks,
                           [](const auto& a, const auto& b) { return std::abs(a.saved_s) > std::abs(b.saved_s); });
  return made;
}

Result<std::pair<RunReport, RunReport>> time_compiled(const Model& before, const Model& after,
                                                      const InputShapes& shapes) {
  constexpr int kRounds = 5, kRuns = 8;
  const Model* models[] = {&before, &after};
  std::vector<std::vector<NamedTensor>> inputs;
  std::vector<ModelContext> contexts;
  for (const Model* model : models) {
    FETTLE_TRY(std::vector<NamedTensor> drawn, random_inputs(*model, 0, shapes));
    inputs.push_back(std::move(drawn));
    FETTLE_TRY(ModelContext context, model->make_context());
    contexts.push_back(std::move(context));
  }
  std::vector<TimedWork> works;
  for (size_t i = 0; i < 2; ++i) works.push_back(timed_model(i ? "after" : "before", contexts[i], inputs[i]));
  FETTLE_TRY(const std::vector<Latency> latencies, time_interleaved(works, {.seconds = 1}));
  std::vector<KernelTime> times[2];
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < 2; ++i) {
      FETTLE_TRY(const std::vector<KernelTime> now, profile_model(contexts[i], inputs[i], kRuns, nullptr));
      if (round == 0) times[i] = now;
      // Each kernel's fastest round: another program disturbs one round, rarely all.
      for (size_t k = 0; k < now.size(); ++k)
        if (now[k].total_ns < times[i][k].total_ns) times[i][k] = now[k];
    }
  return std::pair(report_of(before, times[0], kRuns, latencies[0]), report_of(after, times[1], kRuns, latencies[1]));
}

}  // namespace fettle
