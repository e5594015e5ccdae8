#include "cli/inspect_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "driver/kernels.h"
#include "graph/passes/pipeline.h"
#include "ir/text.h"
#include "lower/pipeline.h"
#include "schedule/trace/trace.h"

namespace fettle::cli {
namespace {

/// Names in order, each once.
template <class List, class Name>
std::string names_of(const List& list, Name name) {
  std::vector<std::string> names;
  for (const auto& one : list)
    if (std::string text(name(one)); std::ranges::find(names, text) == names.end()) names.push_back(std::move(text));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// One of the stages that are shown: several, if a name stands in a list more than once.
std::string stage(const std::string& what, size_t number, size_t count, const std::string& text) {
  return fmt::format("# after {}, {} of {}\n{}", what, number, count, text);
}

}  // namespace

Result<std::string> graph_after(const std::string& pass, const ModelFile& model, const InputShapes& shapes,
                                const OpenSizes& sizes, const Limits& limits) {
  const auto passes = graph_passes();
  const auto name = [](const GraphPass& p) { return p.name; };
  if (std::ranges::find(passes, pass, &GraphPass::name) == passes.end())
    return fail(ErrorCode::E709, fmt::format("there is no pass '{}'; the passes are: {}", pass, names_of(passes, name)),
                "--after");
  std::string text;
  size_t number = 0;
  const auto keep = [&](std::string_view done, const Graph& graph) {
    ++number;
    if (done == pass) text += stage(pass, number, passes.size(), to_text(graph, true));
  };
  auto loaded = load_model(model, shapes, sizes, {}, keep, {}, limits);
  // What goes wrong later is no reason not to show what there was.
  if (text.empty() && !loaded) return fail(std::move(loaded).error());
  return text;
}

Result<std::string> task_after(const std::string& wanted, const TaskInfo& task, const Target& target) {
  FETTLE_TRY(const Schedule scheduled, replayed_schedule(task.workload, task.trace, target));
  const ParsedTrace trace = as_parsed(scheduled.trace());
  const auto n_steps = trace.steps.size();
  const auto step_name = [](const ParsedStep& step) { return step.def->name; };

  std::optional<size_t> count;
  if (size_t n = 0;
      std::from_chars(wanted.data(), wanted.data() + wanted.size(), n).ptr == wanted.data() + wanted.size())
    count = n;
  const bool is_step =
      count ? *count <= n_steps : std::ranges::find(trace.steps, wanted, step_name) != trace.steps.end();
  std::string text;
  if (is_step) {
    FETTLE_TRY(const Func workload, parse_func(task.workload));
    Schedule schedule(workload);
    schedule.set_target(std::make_shared<const Target>(target));
    if (count == size_t{0}) return stage("no step", 0, n_steps, to_text(schedule.func()));
    for (size_t i = 0; i < n_steps; ++i) {
      const ParsedStep& step = trace.steps[i];
      FETTLE_TRY_VOID(step.def->samples ? schedule.step_recorded(*step.def, step.args, step.address, step.decision)
                                        : schedule.step_erased(*step.def, step.args));
      if (count ? i + 1 == *count : step.def->name == wanted)
        text += stage(std::string(step.def->name), i + 1, n_steps, to_text(schedule.func()));
    }
    return text;
  }

  if (target.has_threads())
    return fail(ErrorCode::E709,
                fmt::format("the task has no stage '{}'; there are 0 to {} steps of its schedule, by name: {}", wanted,
                            n_steps, names_of(trace.steps, step_name)),
                "--after");
  const auto passes = lowering_passes(Pipeline::kFull);
  const auto pass_name = [](const LoweringPass& p) { return p.name; };
  if (count || std::ranges::find(passes, wanted, pass_name) == passes.end())
    return fail(ErrorCode::E709,
                fmt::format("the task has no stage '{}'; there are 0 to {} steps of its schedule, by name: {}; and the "
                            "passes of lowering: {}",
                            wanted, n_steps, names_of(trace.steps, step_name), names_of(passes, pass_name)),
                "--after");
  size_t number = 0;
  const auto show = [&](std::string_view done, const LoweredKernel& lowered) {
    ++number;
    if (done != wanted) return;
    std::string program = to_text(lowered.kernel);
    if (!lowered.prologue.entry.empty()) program += "\n" + to_text(lowered.prologue);
    text += stage(wanted, number, passes.size(), program);
  };
  FETTLE_TRY_VOID(lower(scheduled.func(), target, {.after = show}));
  return text;
}

}  // namespace fettle::cli
