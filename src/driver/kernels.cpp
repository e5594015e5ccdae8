#include "driver/kernels.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_set>

#include "driver/untuned.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/reformulation.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

/// The buffers that a lowered entry reads or writes.
std::unordered_set<const BufferNode*> touched_buffers(const Func& entry) {
  std::unordered_set<const BufferNode*> touched;
  walk(
      entry->body,
      [&](const Stmt& s) {
        if (const auto* write = s.as<StoreNode>()) touched.insert(write->buffer.get());
        return true;
      },
      [&](const Expr& e) {
        if (const auto* read = e.as<LoadNode>()) touched.insert(read->buffer.get());
        if (const auto* place = e.as<AddressNode>()) touched.insert(place->buffer.get());
        return true;
      });
  return touched;
}

Result<CompiledKernel> compile_scheduled(const KernelRequest& request, const Target& target, int kernel_threads,
                                         ObjectCache& cache) {
  FETTLE_TRY(const Schedule schedule, schedule_for(request, target, kernel_threads));
  FETTLE_TRY(const LoweredKernel lowered, lower(schedule.func(), target));

  CompiledKernel kernel;
  kernel.symbol = request.symbol;
  kernel.trace = to_text(schedule.trace());
  kernel.tuned = !request.trace.empty();
  kernel.numerics = numerics_name(numerics_of(schedule.func()));
  kernel.error_bound = error_bound_of(schedule.func());
  FETTLE_TRY(kernel.objects, compile_module(lowered.kernel, target, cache, kernel.symbol));
  if (!lowered.prologue.entry.empty()) {
    kernel.prologue_symbol = request.symbol + "_prologue";
    FETTLE_TRY(kernel.prologue_objects, compile_module(lowered.prologue, target, cache, kernel.prologue_symbol));
  }

  const Func& entry = lowered.kernel.funcs.at(lowered.kernel.entry);
  const auto touched = touched_buffers(entry);
  const size_t n_sources = schedule.func()->params.size();
  for (size_t i = 0; i < lowered.kernel_params.size(); ++i) {
    const Param& param = lowered.kernel_params[i];
    KernelParam made;
    made.source = i < n_sources ? static_cast<int>(i) : -1;
    made.constant = param.kind == ParamKind::kConstant;
    made.is_read = touched.contains(entry->params[i].buffer.get());
    FETTLE_TRY(made.layout, Relayout::make(*param.buffer));
    kernel.params.push_back(std::move(made));
  }
  for (const Param& param : lowered.prologue_params)
    for (size_t i = 0; i < lowered.kernel_params.size(); ++i)
      if (lowered.kernel_params[i].buffer == param.buffer) kernel.prologue_params.push_back(static_cast<int>(i));
  if (kernel.prologue_params.size() != lowered.prologue_params.size())
    return fail(ErrorCode::E302, "a parameter of the prologue of " + request.symbol + " is unknown");
  return kernel;
}

Result<CompiledKernel> compile_kernel(KernelRequest request, const Target& target, int kernel_threads,
                                      ObjectCache& cache) {
  const auto begin = std::chrono::steady_clock::now();
  auto made = compile_scheduled(request, target, kernel_threads, cache);
  std::string warning;
  if (!made && !request.trace.empty()) {
    warning = made.error().to_string();
    request.trace.clear();
    made = compile_scheduled(request, target, kernel_threads, cache);
  }
  if (!made) return made;
  made->warning = std::move(warning);
  made->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return made;
}

}  // namespace

Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads) {
  FETTLE_TRY(const Func func, parse_func(request.workload));
  const auto shared_target = std::make_shared<const Target>(target);
  if (request.trace.empty()) return untuned_schedule(func, shared_target, kernel_threads, request.max_error_bound);
  FETTLE_TRY(const ParsedTrace trace, parse_trace(request.trace));
  Schedule schedule(func);
  schedule.set_target(shared_target);
  FETTLE_TRY_VOID(replay(schedule, trace));
  return schedule;
}

Result<std::vector<CompiledKernel>> compile_kernels(const std::vector<KernelRequest>& requests, const Target& target,
                                                    int kernel_threads, int threads) {
  std::vector<std::optional<Result<CompiledKernel>>> results(requests.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    ObjectCache cache;
    for (size_t i = next++; i < requests.size(); i = next++)
      results[i] = compile_kernel(requests[i], target, kernel_threads, cache);
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<CompiledKernel> kernels;
  for (size_t i = 0; i < results.size(); ++i) {
    auto& result = *results[i];
    if (!result) {
      Diagnostic& error = result.error();
      if (!requests[i].label.empty()) error.where = requests[i].label + (error.where.empty() ? "" : "; " + error.where);
      return fail(std::move(error));
    }
    kernels.push_back(std::move(*result));
  }
  return kernels;
}

}  // namespace fettle
