#include "driver/build_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/device_def.h"
#include "driver/alternation.h"
#include "rt/cpu.h"

namespace fettle {
namespace {

/// Compiles all workloads; the schedules of those that do not compile, and had been recorded, change.
Result<std::vector<BuiltKernel>> compile_workloads(PlannedModel& planned) {
  const CompileOptions& options = planned.options;
  std::vector<BuiltKernel> kernels(planned.requests.size());
  const std::vector<bool> alternating = alternating_requests(planned);
  std::vector<bool> settled(planned.requests.size(), false);
  while (!std::ranges::all_of(settled, std::identity())) {
    std::vector<size_t> left;
    std::vector<KernelJob> jobs;
    for (size_t i = 0; i < settled.size(); ++i)
      if (!settled[i]) {
        left.push_back(i);
        jobs.push_back({&planned.schedules[i], planned.requests[i].symbol, alternating[i]});
      }
    auto compiled = compile_kernels(jobs, options.target, compile_threads(options));
    bool changed = false;
    for (size_t k = 0; k < left.size(); ++k) {
      const size_t i = left[k];
      settled[i] = compiled[k].has_value();
      if (settled[i]) {
        kernels[i] = std::move(*compiled[k]);
        continue;
      }
      Diagnostic& error = compiled[k].error();
      if (!planned.schedules[i].tuned) return fail(concerning(planned.requests[i].label, std::move(error)));
      // Another version wrote what is recorded.
      planned.requests[i].trace.clear();
      FETTLE_TRY(auto again, choose_schedules({planned.requests[i]}, options.target, options.threads, 1));
      planned.schedules[i] = std::move(again.front());
      warn_of_schedule(options, planned.requests[i], error.to_string());
      changed = true;
    }
    if (changed) FETTLE_TRY_VOID(settle_schedules(planned, settled));
  }
  return kernels;
}

}  // namespace

Result<> check_runs_here(const Target& target) {
  if (target.kind != cpu_device.kind) return {};
  if (target.arch != "x86_64") return fail(ErrorCode::E707, fmt::format("{} code does not run here", target.arch));
  char missing[32];
  if (fettle_cpu_check(target.features.c_str(), missing, sizeof missing) == 0) return {};
  return fail(ErrorCode::E707, fmt::format("this machine lacks {}, which the target needs", missing));
}

Result<BuiltModel> build_model(PlannedModel planned, ConstantPool* pool) {
  if (!pool) FETTLE_TRY_VOID(check_runs_here(planned.options.target));
  BuiltModel built{std::move(planned), {}, {}, {}};
  FETTLE_TRY(built.kernels, compile_workloads(built.planned));
  if (pool) {
    FETTLE_TRY(LateConstants late, defer_constants(built.planned.plan, built.planned.constants, built.kernels, *pool));
    built.constants = std::move(late.constants);
    built.packings = std::move(late.packings);
    return built;
  }
  FETTLE_TRY(built.constants, make_constants(built.planned.plan, built.planned.constants, built.kernels,
                                             compile_threads(built.planned.options)));
  return built;
}

}  // namespace fettle
