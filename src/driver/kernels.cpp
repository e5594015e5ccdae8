#include "driver/kernels.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "driver/untuned.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "lower/packings.h"
#include "schedule/reformulation.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

/// work(i) for each i in [0, n), on `threads` threads; `work` is made once for each of them.
void for_each_on_threads(size_t n, int threads, const std::function<std::function<void(size_t)>()>& make_work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    const std::function<void(size_t)> work = make_work();
    for (size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(run);
  run();
  for (std::thread& helper : helpers) helper.join();
}

Result<ChosenSchedule> choose_schedule(KernelRequest request, const Target& target, int kernel_threads) {
  const auto choose = [&]() -> Result<ChosenSchedule> {
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

Result<CompiledKernel> compile_kernel(const KernelJob& job, const Target& target, ObjectCache& cache) {
  const auto begin = std::chrono::steady_clock::now();
  FETTLE_TRY(const Func func, parse_func(job.schedule->workload));
  FETTLE_TRY(const ParsedTrace trace, parse_trace(job.schedule->trace));
  Schedule schedule(func);
  schedule.set_target(std::make_shared<const Target>(target));
  FETTLE_TRY_VOID(replay(schedule, trace));
  FETTLE_TRY(const LoweredKernel lowered, lower(schedule.func(), target));

  CompiledKernel kernel;
  kernel.symbol = job.symbol;
  FETTLE_TRY(kernel.objects, compile_module(lowered.kernel, target, cache, kernel.symbol));
  if (!lowered.prologue.entry.empty()) {
    kernel.prologue_symbol = job.symbol + "_prologue";
    FETTLE_TRY(kernel.prologue_objects, compile_module(lowered.prologue, target, cache, kernel.prologue_symbol));
  }
  for (const Param& param : lowered.prologue_params)
    for (size_t i = 0; i < lowered.kernel_params.size(); ++i)
      if (lowered.kernel_params[i].buffer == param.buffer) kernel.prologue_params.push_back(static_cast<int>(i));
  if (kernel.prologue_params.size() != lowered.prologue_params.size())
    return fail(ErrorCode::E302, "a parameter of the prologue of " + job.symbol + " is unknown");
  kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return kernel;
}

}  // namespace

Diagnostic concerning(const std::string& label, Diagnostic error) {
  if (!label.empty()) error.where = label + (error.where.empty() ? "" : "; " + error.where);
  return error;
}

Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads) {
  FETTLE_TRY(const Func func, parse_func(request.workload));
  const auto shared_target = std::make_shared<const Target>(target);
  if (request.trace.empty() && !request.default_trace)
    return untuned_schedule(func, shared_target, kernel_threads, request.max_error_bound);
  FETTLE_TRY(const ParsedTrace trace, parse_trace(request.trace.empty() ? *request.default_trace : request.trace));
  Schedule schedule(func);
  schedule.set_target(shared_target);
  FETTLE_TRY_VOID(replay(schedule, trace));
  return schedule;
}

Result<ChosenSchedule> describe_schedule(const Schedule& schedule, std::string workload) {
  ChosenSchedule chosen;
  chosen.workload = std::move(workload);
  chosen.trace = to_text(schedule.trace());
  chosen.numerics = numerics_name(numerics_of(schedule.func()));
  chosen.error_bound = error_bound_of(schedule.func());
  chosen.computes_once = chosen.trace.find("tail=\"shift\"") == std::string::npos;
  const KernelConstants constants = constants_of(schedule.func());
  for (size_t i = 0; i < constants.params.size(); ++i) {
    const Param& param = constants.params[i];
    KernelParam made;
    made.source = i < schedule.func()->params.size() ? static_cast<int>(i) : -1;
    made.constant = param.kind == ParamKind::kConstant;
    made.is_read = constants.is_read[i];
    FETTLE_TRY(made.layout, Relayout::make(*param.buffer));
    chosen.params.push_back(std::move(made));
  }
  for (const Packing& packing : constants.packings) {
    KernelParam& made = chosen.params[packing.made];
    made.packed_from.assign(packing.sources.begin(), packing.sources.end());
    made.packing = packing.digest;
  }
  return chosen;
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

std::vector<Result<CompiledKernel>> compile_kernels(const std::vector<KernelJob>& jobs, const Target& target,
                                                    int threads) {
  std::vector<std::optional<Result<CompiledKernel>>> results(jobs.size());
  for_each_on_threads(jobs.size(), threads, [&] {
    return [&, cache = std::make_shared<ObjectCache>()](size_t i) {
      results[i] = compile_kernel(jobs[i], target, *cache);
    };
  });
  std::vector<Result<CompiledKernel>> kernels;
  for (auto& result : results) kernels.push_back(std::move(*result));
  return kernels;
}

}  // namespace fettle
