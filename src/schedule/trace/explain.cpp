#include "schedule/trace/explain.h"

#include <algorithm>

#include "base/check.h"
#include "ir/text.h"
#include "schedule/trace/trace_refs.h"

namespace fettle {
namespace {

// The last line of the text of a trace with that step at its end.
std::string step_text(const Trace& before, const PrimitiveDef& def, const std::shared_ptr<const void>& args) {
  Trace trace = before;
  auto step = make_ref<Step>();
  step->def = &def;
  step->args = args;
  trace.steps.push_back(step);
  std::string text = to_text(trace);
  text.pop_back();
  text = text.substr(text.rfind('\n') + 1);   // npos + 1 is 0
  return text.substr(0, text.find("   # "));  // a sampling step has decided nothing
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The loop or block that the step's arguments name first, now; null if there is none.
const StmtNode* first_named(const RefusedStep& step) {
  const StmtNode* found = nullptr;
  for (NamedArg& arg : step.def->to_args(step.args.get()))
    for_each_ref(arg.value, [&](const StepRef& ref) {
      if (found || ref.step < 0 || static_cast<size_t>(ref.step) >= step.before.size()) return;
      const auto& outputs = step.before.steps[static_cast<size_t>(ref.step)]->outputs;
      if (ref.output < 0 || static_cast<size_t>(ref.output) >= outputs.size()) return;
      if (const auto stmt = find_output(step.program, outputs[static_cast<size_t>(ref.output)])) found = stmt->get();
    });
  return found;
}

// The steps that `keep` says, references renumbered; nothing if a kept step needs one that is left out.
std::optional<ParsedTrace> only(const ParsedTrace& trace, const std::vector<bool>& keep) {
  std::vector<int32_t> number(trace.steps.size(), -1);
  ParsedTrace result;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (!keep[i]) continue;
    number[i] = static_cast<int32_t>(result.steps.size());
    ParsedStep& step = result.steps.emplace_back(trace.steps[i]);
    bool complete = true;
    auto args = with_refs(*step.def, step.args.get(), [&](StepRef& ref) {
      const bool known =
          ref.step >= 0 && static_cast<size_t>(ref.step) < i && number[static_cast<size_t>(ref.step)] >= 0;
      complete &= known;
      if (known) ref.step = number[static_cast<size_t>(ref.step)];
    });
    if (!complete || !args) return std::nullopt;
    step.args = std::move(*args);
    step.output_kinds.clear();  // results may differ in number; those that are used are checked when they are
  }
  return result;
}

// Why the trace is refused: the code, and whether it is the last step that is.
std::optional<Diagnostic> refusal(const Schedule& start, const ParsedTrace& trace, size_t* at) {
  Schedule s = start;
  for (*at = 0; *at < trace.steps.size(); ++*at) {
    const ParsedStep& step = trace.steps[*at];
    auto done = s.step_recorded(*step.def, step.args, step.address, step.decision);
    if (!done) return std::move(done).error();
  }
  return std::nullopt;
}

}  // namespace

std::string explain(const Diagnostic& diagnostic) {
  std::string text = diagnostic.to_string();
  const RefCounted* about = diagnostic.program.get();
  const auto* refused = dynamic_cast<const RefusedStep*>(about);
  if (refused) text.append("\nrefused: ").append(step_text(refused->before, *refused->def, refused->args));
  const auto* func = refused ? refused->program.get() : dynamic_cast<const FuncNode*>(about);
  if (!func) return text;
  PrintOptions options;
  options.marked = static_cast<const StmtNode*>(diagnostic.place);
  if (!options.marked && refused) options.marked = first_named(*refused);
  return text.append("\n").append(to_text(Func(Ref<const FuncNode>(func)), options));
}

ParsedTrace smallest_refused(const Schedule& start, const ParsedTrace& trace) {
  size_t at = 0;
  const auto why = refusal(start, trace, &at);
  if (!why) return {};
  ParsedTrace smallest = trace;
  smallest.steps.resize(at + 1);
  for (size_t i = at; i-- > 0;) {
    // Without step i, and without what uses it.
    std::vector<bool> keep(smallest.steps.size(), true);
    keep[i] = false;
    for (size_t later = i + 1; later < smallest.steps.size(); ++later) {
      const ParsedStep& step = smallest.steps[later];
      for (NamedArg& arg : step.def->to_args(step.args.get()))
        for_each_ref(arg.value, [&](const StepRef& ref) {
          if (ref.step >= 0 && static_cast<size_t>(ref.step) < later && !keep[static_cast<size_t>(ref.step)])
            keep[later] = false;
        });
    }
    if (!keep.back()) continue;
    auto shorter = only(smallest, keep);
    size_t last = 0;
    const auto still = shorter ? refusal(start, *shorter, &last) : std::nullopt;
    if (still && still->code == why->code && last + 1 == shorter->steps.size()) {
      smallest = std::move(*shorter);
      i = std::min(i, smallest.steps.size() - 1);
    }
  }
  return smallest;
}

TraceExplanation explain_trace(const Schedule& start, const ParsedTrace& trace) {
  FETTLE_CHECK_MSG(start.trace().size() == 0, "explain_trace begins at an original program");
  TraceExplanation result;
  result.start = to_text(start.func());
  Schedule s = start;
  Func before = s.func();
  for (const ParsedStep& step : trace.steps) {
    auto done = s.step_recorded(*step.def, step.args, step.address, step.decision);
    if (!done) {
      result.refused = std::move(done).error();
      const ParsedTrace smallest = smallest_refused(start, trace);
      // Those before the refused step have run, so they have a text; the refused one has none of its results.
      Schedule again = start;
      for (size_t i = 0; i + 1 < smallest.steps.size(); ++i) {
        const ParsedStep& kept = smallest.steps[i];
        auto ran = again.step_recorded(*kept.def, kept.args, kept.address, kept.decision);
        FETTLE_CHECK(ran.has_value());
      }
      if (!smallest.steps.empty())
        result.smallest = to_text(again.trace()) +
                          step_text(again.trace(), *smallest.steps.back().def, smallest.steps.back().args) + "\n";
      break;
    }
    ExplainedStep& shown = result.steps.emplace_back();
    if (!(s.func() == before)) shown.program = to_text(s.func());
    before = s.func();
  }
  const std::vector<std::string> lines = lines_of(to_text(s.trace()));
  FETTLE_CHECK(lines.size() == result.steps.size());
  for (size_t i = 0; i < lines.size(); ++i) result.steps[i].step = lines[i];
  return result;
}

std::string to_text(const TraceExplanation& explanation) {
  std::string text = explanation.start;
  for (const ExplainedStep& step : explanation.steps) {
    text += "\n# " + step.step + "\n";
    text += step.program;
  }
  if (!explanation.refused) return text;
  text += "\n" + explain(*explanation.refused);
  if (text.back() != '\n') text += '\n';
  if (!explanation.smallest.empty()) text += "\nThe smallest trace that shows it:\n" + explanation.smallest;
  return text;
}

}  // namespace fettle
