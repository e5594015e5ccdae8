#include "driver/candidates.h"

#include "ir/text.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"

namespace fettle {
namespace {

Result<TaskCandidates> time_task(const PlannedModel& planned, size_t task, const KernelSources& sources,
                                 double seconds) {
  const CompileOptions& options = planned.options;
  const ChosenSchedule& chosen = planned.schedules[task];
  const bool own = chosen.info.source.empty();
  FETTLE_TRY(const Schedule schedule, schedule_for({.workload = chosen.workload,
                                                    .trace = own ? chosen.trace : "",
                                                    .max_error_bound = options.max_error_bound},
                                                   options.target, options.threads));
  LocalKernelOptions local;
  local.threads = options.threads;
  local.cache = std::make_shared<ObjectCache>();
  local.memory = std::make_shared<SharedMemory>(/*huge_pages=*/true);
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(schedule.func(), options.target, local));
  const auto call = [&] { return kernel.call(); };
  TimingOptions timing;
  timing.max_seconds = seconds;
  TaskCandidates found;
  found.own_s = time_call(call, timing).median_s;
  timing.reference_s = found.own_s;
  FETTLE_TRY(const Func workload, parse_func(chosen.workload));
  for (const KernelSourceDef* source : sources) {
    TaskOffer& offer = found.offers.emplace_back();
    offer.source = source->name;
    const auto offered =
        offered_schedule(*source, workload, std::make_shared<const Target>(options.target), options.threads);
    if (!offered) {
      offer.declined = offered.error().message;
      continue;
    }
    FETTLE_TRY(LocalKernel other, LocalKernel::build(offered->schedule.func(), options.target, local));
    offer.kernel = offered->offer.kernel;
    const Timing timed = time_beside([&] { return other.call(); }, call, timing);
    if (timed.status != 0) return fail(ErrorCode::E710, "its kernel failed", offer.source + ": " + workload->name);
    offer.seconds = timed.median_s;
  }
  return found;
}

}  // namespace

Result<std::vector<TaskCandidates>> time_candidates(const PlannedModel& planned, const KernelSources& sources,
                                                    double seconds) {
  std::vector<TaskCandidates> all;
  for (size_t task = 0; task < planned.schedules.size(); ++task) {
    FETTLE_TRY(TaskCandidates found, time_task(planned, task, sources, seconds));
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace fettle
