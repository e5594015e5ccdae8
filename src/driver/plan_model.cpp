#include "driver/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/build.h"
#include "cost/predict/machine_costs.h"
#include "cost/predict/predict.h"
#include "driver/kernel_costs.h"
#include "driver/untuned.h"
#include "graph/plan/host_program.h"
#include "graph/plan/sections.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "lower/device/device.h"
#include "lower/passes/passes.h"
#include "schedule/reformulation.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

/// The error bound of a recorded schedule; 0 where it does not replay, which compiling tells.
double bound_of(const Func& workload, const std::string& trace, const Target& target) {
  const auto parsed = parse_trace(trace);
  if (!parsed) return 0;
  Schedule schedule(workload);
  schedule.set_target(std::make_shared<const Target>(target));
  if (!replay(schedule, *parsed)) return 0;
  return error_bound_of(schedule.func());
}

}  // namespace

int compile_threads(const CompileOptions& options) {
  return options.compile_threads > 0 ? options.compile_threads : available_threads();
}

void warn_of_schedule(const CompileOptions& options, const KernelRequest& request, const std::string& why) {
  if (options.warn)
    options.warn(fmt::format("the recorded schedule of {} is of no use any more: {}", request.label, why));
}

std::vector<TaskInfo> PlannedModel::tasks() const {
  std::vector<TaskInfo> found;
  const auto add = [&](const std::string& name, const Digest& hash, int count) {
    const ChosenSchedule& schedule = schedules[found.size()];
    found.push_back({name,
                     hash.hex(),
                     schedule.workload,
                     schedule.trace,
                     count,
                     schedule.tuned,
                     std::string(numerics_name(schedule.info.numerics)),
                     schedule.info.error_bound,
                     schedule.info.source,
                     {}});
  };
  for (const PlannedWorkload& workload : plan.workloads) add(workload.func->name, workload.hash, workload.count);
  for (const PlannedClass& of : classes) {
    const SizeClass& made = size_class(of);
    add(made.func->name, made.hash, plan.workloads[static_cast<size_t>(of.workload)].count);
  }
  for (const PlannedCall& call : plan.calls)
    found[static_cast<size_t>(call.workload)].calls.push_back({call.name, call.provenance});
  return found;
}

int64_t PlannedModel::arena_bytes() const { return std::max<int64_t>(plan.arena_bytes.typical(), 64); }

namespace {

/// Whether who calls one kernel may call the other: both take the same constants, packed alike, in the same order.
bool is_called_alike(const KernelInfo& a, const KernelInfo& b) {
  return a.computes_once == b.computes_once &&
         std::ranges::equal(a.params, b.params, [](const KernelParam& x, const KernelParam& y) {
           return x.source == y.source && x.kind == y.kind && x.dtype == y.dtype && x.is_read == y.is_read &&
                  x.packed_from == y.packed_from && x.packing == y.packing && x.layout.digest() == y.layout.digest();
         });
}

/// A class's schedule takes what that of its workload does: where it does not, it is the best default that does, or the
/// workload's own, which fits all sizes.
Result<> fit_classes(PlannedModel& planned, const std::vector<bool>& settled) {
  const CompileOptions& options = planned.options;
  for (const PlannedClass& of : planned.classes) {
    const auto w = static_cast<size_t>(of.workload);
    ChosenSchedule& schedule = planned.schedules[of.request];
    if (is_called_alike(schedule.info, planned.schedules[w].info)) continue;
    const Func& func = planned.size_class(of).func;
    const std::string text = to_text(func);
    const auto target = std::make_shared<const Target>(options.target);
    const auto fits = [&](const Schedule& candidate) {
      const auto described = describe_schedule(candidate, text);
      return described && is_called_alike(described->info, planned.schedules[w].info);
    };
    if (!settled[of.request]) {
      if (const auto found = accepted_default(func, target, options.threads, options.max_error_bound, fits)) {
        FETTLE_TRY(schedule, describe_schedule(*found, text));
        continue;
      }
    }
    schedule = planned.schedules[w];
  }
  return {};
}

/// Of attention those products, by their numbers among fusible nodes, with which scores, softmax and product are one
/// kernel of the device: nothing between these is written to memory then.
Result<std::vector<int>> fused_to_one_kernel(const Graph& graph, ImageLayout layout, const CompileOptions& options) {
  const std::vector<const Node*> fusible = fusible_nodes(graph);
  FETTLE_TRY(const std::vector<Func> programs, fused_programs(graph, layout));
  const auto target = std::make_shared<const Target>(options.target);
  std::map<Digest, bool> known;
  std::vector<int> chosen;
  for (size_t i = 0; i < fusible.size(); ++i) {
    if (fusible[i]->op->image != ImageWork::kNone || !programs[i]) continue;
    const auto [is_one, is_new] = known.try_emplace(canonical_hash(programs[i]), false);
    if (is_new) {
      FETTLE_TRY(const Schedule schedule,
                 untuned_schedule(programs[i], target, options.threads, options.max_error_bound));
      const auto made = lower_for_device(split_prologue(schedule.func()).main, options.target);
      is_one->second = made && made->kernels.size() == 1;
    }
    if (is_one->second) chosen.push_back(static_cast<int>(i));
  }
  return chosen;
}

}  // namespace

Result<> settle_schedules(PlannedModel& planned, const std::vector<bool>& settled) {
  FETTLE_TRY_VOID(share_packings(planned.plan, planned.requests, settled, planned.options.target,
                                 planned.options.threads, planned.schedules));
  FETTLE_TRY_VOID(fit_classes(planned, settled));
  assign_memory(planned.plan,
                [&](int workload) { return planned.schedules[static_cast<size_t>(workload)].info.computes_once; });
  if (planned.options.target.has_threads() && planned.plan.n_loops > 0) {
    constexpr int64_t kLine = 64;
    planned.counters_at = ceildiv(max(planned.plan.arena_bytes, kLine), kLine) * kLine;
    planned.plan.arena_bytes = planned.counters_at + (planned.plan.n_loops * kCounterBytes + kLine - 1) / kLine * kLine;
  }
  planned.constants = plan_constants(planned.plan, planned.schedules);
  return {};
}

// Of so many nodes both layouts of images are planned, which takes as long again. Longer chains have channels last.
constexpr size_t kFewNodes = 8;
// Of fifty random convolutions each whose other layout is predicted to take less than this took less (bench-shapes).
constexpr double kWorthLeavingAsPredicted = 0.95;

Result<const Plan*> plan_of(Plans& plans, const CompileOptions& options, KernelCosts& costs) {
  const Graph& graph = *plans.graph();
  PlanOptions planning{.layout = options.layout.value_or(ImageLayout::kChannelsLast), .fused = {}};
  if (options.target.has_threads()) planning.weights = WeightOrder::kAsImages;
  if (options.fused) {
    planning.fused = *options.fused;
  } else if (options.target.has_threads()) {  // of GPUs' kernels nothing is predicted yet
    FETTLE_TRY(planning.fused, fused_to_one_kernel(graph, planning.layout, options));
  } else if (!options.layout && graph.nodes().size() <= kFewNodes) {
    return choose_plan(plans, options.threads, costs, kWorthLeavingAsPredicted);
  } else {
    FETTLE_TRY(planning.fused, choose_fused(graph, planning.layout, options.threads, costs));
  }
  return plans.get(planning);
}

/// What calls are predicted to take as they are scheduled.
class ScheduledCosts {
 public:
  explicit ScheduledCosts(const PlannedModel& planned) : planned_(planned) {}

  CallSeconds operator()(int call) {
    const int workload = planned_.plan.calls[static_cast<size_t>(call)].workload;
    const auto [found, is_new] = known_.try_emplace(workload);
    if (is_new) found->second = predict(planned_.schedules[static_cast<size_t>(workload)]);
    return found->second;
  }

 private:
  CallSeconds predict(const ChosenSchedule& schedule) const {
    constexpr CallSeconds kStays{.on_all = 0, .on_one = std::numeric_limits<double>::infinity()};
    const auto& [target, threads] = std::tie(planned_.options.target, planned_.options.threads);
    const auto func = parse_func(schedule.program);
    if (!func || !schedule.info.source.empty()) return kStays;
    const auto lowered = lower(*func, target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
    if (!lowered) return kStays;
    return {.on_all = predict_seconds(*lowered, target, threads, nullptr),
            .on_one = predict_crowded_seconds(*lowered, target, threads)};
  }

  const PlannedModel& planned_;
  std::map<int, CallSeconds> known_;  // by workload
};

Result<PlannedModel> plan_model(Plans& plans, const CompileOptions& options) {
  PlannedModel planned{.graph = plans.graph(), .options = options};
  KnownKernelCosts costs(options.target, nullptr, nullptr, options.max_error_bound);
  FETTLE_TRY(const Plan* const plan, plan_of(plans, options, costs));
  planned.plan = *plan;
  planned.plans_made = plans.made();

  const auto ask = [&](const Func& func, const Digest& hash) {
    KernelRequest request{to_text(func), {}, {}, "k_" + hash.hex(), {}, options.max_error_bound};
    if (auto trace = options.find_trace ? options.find_trace(func) : std::nullopt) request.trace = std::move(*trace);
    if (const MadeSchedule* made = costs.made_default(hash, options.threads)) {
      request.made_default = *made;
      planned.defaults_handed_on += request.trace.empty();
    }
    planned.requests.push_back(std::move(request));
  };
  for (const PlannedWorkload& workload : planned.plan.workloads) ask(workload.func, workload.hash);
  for (size_t w = 0; w < planned.plan.workloads.size(); ++w)
    for (const SizeClass& of : planned.plan.workloads[w].classes) {
      const auto number = static_cast<int>(&of - planned.plan.workloads[w].classes.data());
      planned.classes.push_back({static_cast<int>(w), number, planned.requests.size()});
      ask(of.func, of.hash);
    }
  for (const PlannedCall& call : planned.plan.calls) {
    std::string& label = planned.requests[static_cast<size_t>(call.workload)].label;
    if (label.empty()) label = label_of(call);
  }
  for (const PlannedClass& of : planned.classes)
    planned.requests[of.request].label = planned.requests[static_cast<size_t>(of.workload)].label;
  FETTLE_TRY(planned.schedules,
             choose_schedules(planned.requests, options.target, options.threads, compile_threads(options)));
  for (size_t w = 0; w < planned.schedules.size(); ++w)
    if (!planned.schedules[w].warning.empty())
      warn_of_schedule(options, planned.requests[w], planned.schedules[w].warning);
  if (!options.target.has_threads())
    run_in_sections(planned.plan, {.threads = options.threads,
                                   .fork_join_s = describe_costs(options.target).fork_join_seconds,
                                   .seconds = ScheduledCosts(planned)});
  FETTLE_TRY_VOID(settle_schedules(planned, std::vector<bool>(planned.requests.size(), false)));
  return planned;
}

Result<PlannedModel> plan_known(Plans& plans, std::shared_ptr<Database> database, CompileOptions options) {
  FETTLE_TRY(const auto choice, find_choice(plans, *database, options.target, options.threads, options.kernel_sources));
  if (choice && choice->untuned) return plan_model(plans, options);
  options.find_trace = best_traces(std::move(database), options.target, options.threads, options.max_error_bound,
                                   options.kernel_sources);
  if (choice) {
    options.layout = choice->layout;
    FETTLE_TRY(options.fused, fused_numbers(*plans.graph(), *choice));
    options.find_trace = except(choice->defaults, std::move(options.find_trace));
  }
  return plan_model(plans, options);
}

std::function<std::optional<std::string>(const Func&)> best_traces(std::shared_ptr<Database> database,
                                                                   const Target& target, int threads,
                                                                   double max_error_bound,
                                                                   const KernelSources& sources) {
  return [database = std::move(database), target, threads, max_error_bound,
          sources](const Func& workload) -> std::optional<std::string> {
    const auto fits = [&](const Record& record) {
      return is_allowed(record.trace, sources) &&
             (!std::isfinite(max_error_bound) || bound_of(workload, record.trace, target) <= max_error_bound);
    };
    const auto found = best_checked(*database, make_task_key(workload, target, threads, program_versions()), fits);
    if (!found || !*found) return {};
    return (*found)->trace;
  };
}

std::function<std::optional<std::string>(const Func&)> except(
    const std::vector<Digest>& workloads, std::function<std::optional<std::string>(const Func&)> find_trace) {
  return [kept = std::set<Digest>(workloads.begin(), workloads.end()),
          find_trace = std::move(find_trace)](const Func& workload) -> std::optional<std::string> {
    if (kept.contains(canonical_hash(workload))) return {};
    return find_trace(workload);
  };
}

}  // namespace fettle
