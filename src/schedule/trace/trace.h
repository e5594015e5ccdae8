#pragma once
// Trace: the flat record of one run over a schedule, as text and JSON, replayable.
//
//   b0 = get_block(name="C")
//   l1, l2, l3 = get_loops(block=b0)
//   v4, v5 = sample_perfect_tile(loop=l1, n=2, max_innermost=16)   # tile/anchor/i: [32, 16]
//   l6, l7 = split(loop=l1, factors=[v4, v5], tail="partition")
//
// Results are named by kind (b block, l loop, v integer) and a running number; a decision stands behind its address.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/primitive.h"

namespace fettle {

/// One step, immutable and shared by the schedules that went through it.
struct Step : RefCounted {
  const PrimitiveDef* def = nullptr;
  std::shared_ptr<const void> args;
  std::vector<StepOutput> outputs;  // as they were when the step ran
  std::string address;              // sampling steps only
  Decision decision;                // sampling steps only
};

struct Trace {
  std::vector<Ref<const Step>> steps;

  size_t size() const { return steps.size(); }
};

std::string to_text(const Trace& trace);
std::string to_json(const Trace& trace);

/// A trace as it was read: not yet run, so without outputs.
struct ParsedStep {
  const PrimitiveDef* def = nullptr;
  std::shared_ptr<const void> args;
  std::string address;
  Decision decision;
  std::string output_kinds;  // text form only: "bllv"; empty where unknown
};
struct ParsedTrace {
  std::vector<ParsedStep> steps;
};

/// E224, E225 with the line.
Result<ParsedTrace> parse_trace(std::string_view text);
Result<ParsedTrace> trace_from_json(std::string_view json);
ParsedTrace as_parsed(const Trace& trace);

class Schedule;
/// Runs the steps on `schedule`, with their decisions. The first error stops and names the step.
Result<> replay(Schedule& schedule, const ParsedTrace& trace);
/// Steps whose results nothing uses (queries, samplings) are left out.
ParsedTrace simplify(const ParsedTrace& trace);

}  // namespace fettle
