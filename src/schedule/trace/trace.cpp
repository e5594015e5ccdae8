#include "schedule/trace/trace.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace_refs.h"

namespace fettle {
namespace {

char kind_of(const StepOutput& output) {
  return std::holds_alternative<Var>(output) ? 'l' : std::holds_alternative<std::string>(output) ? 'b' : 'v';
}

tl::unexpected<Diagnostic> at_step(size_t number, const ParsedStep& step, Diagnostic diagnostic) {
  diagnostic.where = "step " + std::to_string(number) + ", " + std::string(step.def->name);
  return tl::unexpected<Diagnostic>(std::move(diagnostic));
}

/// Arguments whose references are moved by `base` steps. A search replays the same steps behind the same few others
/// thousands of times: the latest are remembered, per thread.
Result<std::shared_ptr<const void>> moved_args(const ParsedStep& step, int32_t base) {
  struct Moved {
    std::shared_ptr<const void> from, to;  // `from` is held, so that its address is its own
    const PrimitiveDef* def = nullptr;
    int32_t base = 0;
  };
  constexpr size_t kRemembered = 4096;  // some dozen sketches of some hundred steps
  thread_local std::vector<Moved> memory(kRemembered);
  Moved& known = memory[mix64(reinterpret_cast<uintptr_t>(step.args.get())) % kRemembered];
  if (known.from == step.args && known.def == step.def && known.base == base) return known.to;
  FETTLE_TRY(std::shared_ptr<const void> to,
             with_refs(*step.def, step.args.get(), [&](StepRef& ref) { ref.step += base; }));
  known = {step.args, to, step.def, base};
  return to;
}

}  // namespace

ParsedTrace as_parsed(const Trace& trace) {
  ParsedTrace parsed;
  parsed.steps.reserve(trace.size());
  for (const auto& step : trace.steps) {
    ParsedStep& out = parsed.steps.emplace_back();
    out.def = step->def;
    out.args = step->args;
    out.address = step->address;
    out.decision = step->decision;
    for (const StepOutput& output : step->outputs) out.output_kinds += kind_of(output);
  }
  return parsed;
}

Result<> replay(Schedule& schedule, const ParsedTrace& trace) {
  const auto base = static_cast<int32_t>(schedule.trace().size());
  Schedule work = schedule;
  for (size_t number = 0; number < trace.steps.size(); ++number) {
    const ParsedStep& step = trace.steps[number];
    std::shared_ptr<const void> args = step.args;
    if (base > 0) {
      auto shifted = moved_args(step, base);
      if (!shifted) return at_step(number, step, std::move(shifted).error());
      args = std::move(*shifted);
    }
    auto done = work.step_recorded(*step.def, std::move(args), step.address, step.decision);
    if (!done) return at_step(number, step, std::move(done).error());
    if (step.output_kinds.empty()) continue;
    const auto& outputs = work.trace().steps.back()->outputs;
    const bool same = std::ranges::equal(outputs, step.output_kinds, {}, kind_of);
    if (!same)
      return at_step(number, step,
                     Diagnostic(ErrorCode::E224, "it has " + std::to_string(outputs.size()) +
                                                     " results, not those that the trace names"));
  }
  schedule = std::move(work);
  return {};
}

ParsedTrace simplify(const ParsedTrace& trace) {
  const size_t n = trace.steps.size();
  std::vector<bool> used(n, false);
  for (size_t i = n; i-- > 0;) {
    const ParsedStep& step = trace.steps[i];
    if (!step.def->samples && !step.def->queries) used[i] = true;
    if (!used[i]) continue;
    for (NamedArg& named : step.def->to_args(step.args.get()))
      for_each_ref(named.value, [&](const StepRef& ref) {
        if (ref.step >= 0 && static_cast<size_t>(ref.step) < i) used[static_cast<size_t>(ref.step)] = true;
      });
  }
  std::vector<int32_t> number(n, -1);
  ParsedTrace result;
  for (size_t i = 0; i < n; ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<int32_t>(result.steps.size());
    ParsedStep& step = result.steps.emplace_back(trace.steps[i]);
    if (static_cast<size_t>(number[i]) == i) continue;  // nothing left out so far
    auto args = with_refs(*step.def, step.args.get(), [&](StepRef& ref) {
      if (ref.step >= 0 && static_cast<size_t>(ref.step) < i) ref.step = number[static_cast<size_t>(ref.step)];
    });
    FETTLE_CHECK_MSG(args.has_value(), "a step's own arguments must convert back");
    step.args = std::move(*args);
  }
  return result;
}

}  // namespace fettle
