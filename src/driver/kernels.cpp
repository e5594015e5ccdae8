#include "driver/kernels.h"

#include "base/on_threads.h"
#include "driver/untuned.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "lower/packings.h"
#include "schedule/reformulation.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

Result<ChosenSchedule> described(const Func& func, MadeSchedule made, std::string workload) {
  ChosenSchedule chosen;
  chosen.workload = std::move(workload);
  chosen.trace = std::move(made.trace);
  chosen.program = std::move(made.program);
  FETTLE_TRY(chosen.info, describe_kernel(func));
  return chosen;
}

Result<ChosenSchedule> choose_schedule(KernelRequest request, const Target& target, int kernel_threads) {
  const auto choose = [&]() -> Result<ChosenSchedule> {
    if (request.trace.empty() && request.made_default) {
      FETTLE_TRY(const Func func, parse_func(request.made_default->program));
      return described(func, *request.made_default, request.workload);
    }
    FETTLE_TRY(const Schedule schedule, schedule_for(request, target, kernel_threads));
    return describe_schedule(schedule, request.workload);
  };
  auto chosen = choose();
  const bool tuned = chosen && !request.trace.empty();
  std::string warning;
  if (!chosen && !request.trace.empty()) {
    warning = chosen.error().to_string();
    request.trace.clear();
    chosen = choose();
  }
  if (!chosen) return chosen;
  chosen->tuned = tuned;
  chosen->warning = std::move(warning);
  return chosen;
}

Result<BuiltKernel> compile_kernel(const KernelJob& job, const Target& target, ObjectCache& cache) {
  FETTLE_TRY(const Func func, parse_func(job.schedule->program));
  return build_kernel(func, target, cache, {.entry_name = job.symbol, .alternates = job.alternates});
}

}  // namespace

Diagnostic concerning(const std::string& label, Diagnostic error) {
  if (!label.empty()) error.where = label + (error.where.empty() ? "" : "; " + error.where);
  return error;
}

MadeSchedule made_schedule(const Schedule& schedule) { return {to_text(schedule.trace()), to_text(schedule.func())}; }

Result<Schedule> replayed_schedule(const std::string& workload, const std::string& trace, const Target& target) {
  FETTLE_TRY(const Func func, parse_func(workload));
  FETTLE_TRY(const ParsedTrace parsed, parse_trace(trace));
  Schedule schedule(func);
  schedule.set_target(std::make_shared<const Target>(target));
  FETTLE_TRY_VOID(replay(schedule, parsed));
  return schedule;
}

Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads) {
  if (!request.trace.empty()) return replayed_schedule(request.workload, request.trace, target);
  FETTLE_TRY(const Func func, parse_func(request.workload));
  return untuned_schedule(func, std::make_shared<const Target>(target), kernel_threads, request.max_error_bound);
}

Result<ChosenSchedule> describe_schedule(const Schedule& schedule, std::string workload) {
  return described(schedule.func(), made_schedule(schedule), std::move(workload));
}

Result<std::vector<ChosenSchedule>> choose_schedules(const std::vector<KernelRequest>& requests, const Target& target,
                                                     int kernel_threads, int threads) {
  std::vector<std::optional<Result<ChosenSchedule>>> results(requests.size());
  for_each_on_threads(requests.size(), threads, [&] {
    return [&](size_t i) { results[i] = choose_schedule(requests[i], target, kernel_threads); };
  });
  std::vector<ChosenSchedule> chosen;
  for (size_t i = 0; i < results.size(); ++i) {
    auto& result = *results[i];
    if (!result) return fail(concerning(requests[i].label, std::move(result.error())));
    chosen.push_back(std::move(*result));
  }
  return chosen;
}

std::vector<Result<BuiltKernel>> compile_kernels(const std::vector<KernelJob>& jobs, const Target& target,
                                                 int threads) {
  std::vector<std::optional<Result<BuiltKernel>>> results(jobs.size());
  ObjectCache cache;
  for_each_on_threads(jobs.size(), threads,
                      [&] { return [&](size_t i) { results[i] = compile_kernel(jobs[i], target, cache); }; });
  std::vector<Result<BuiltKernel>> kernels;
  for (auto& result : results) kernels.push_back(std::move(*result));
  return kernels;
}

}  // namespace fettle
