#pragma once
// Shows traces to people: the program after each step, and the smallest trace in which a step is refused.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

struct ExplainedStep {
  std::string step;     // a line of the trace's text
  std::string program;  // after it; empty where the step left it as it was
};

/// A trace, step by step. Where a step is refused, those before it are there, and why.
struct TraceExplanation {
  std::string start;  // the program before the first step
  std::vector<ExplainedStep> steps;
  std::optional<Diagnostic> refused;
  /// The smallest trace found that is refused for the same reason, as text; empty where none is.
  std::string smallest;
};

/// Runs the steps on a copy of `start`, whose trace must be empty, with their decisions; open ones are drawn from its
/// seed.
TraceExplanation explain_trace(const Schedule& start, const ParsedTrace& trace);

/// Each step as a comment, and behind it the program where it changed; then what was refused.
std::string to_text(const TraceExplanation& explanation);

/// Steps of the trace without which the same step is still refused under the same code are left out, one after the
/// other; the refused step is the last. Returns an empty trace where nothing is refused. Costs at most n²/2 steps.
ParsedTrace smallest_refused(const Schedule& start, const ParsedTrace& trace);

}  // namespace fettle
