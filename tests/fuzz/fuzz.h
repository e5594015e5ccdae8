#pragma once
// Differential fuzzing: random programs, random legal schedules of them; what is compiled must compute what is
// interpreted.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/backends.h"

namespace fettle::fuzz {

/// A wrong result, a crash, a hang, or a program that could not be compiled.
struct Finding {
  int64_t case_number = 0;
  std::string what;     // one line
  std::string program;  // text
  std::string trace;    // text, as short as it became
};

struct FuzzOptions {
  uint64_t seed = 1;
  /// Schedules to compile and run; those without a step do not count.
  int64_t traces = 2000;
  /// The first case; cases of one seed are numbered from zero.
  int64_t first_case = 0;
  const Backend* backend = nullptr;
  /// Programs of random_affine_program, and schedules for them.
  bool affine = false;
  /// Steps tried for one schedule.
  int max_actions = 14;
  /// Ends at this many findings.
  int max_findings = 1;
  /// Shrinks what is found.
  bool shrink = true;
  /// Programs compiled together, at most 256; a crash while compiling is looked for among them one by one.
  int batch = 32;
  /// Processes at once. Whatever their number, what is found and counted is the same.
  int processes = 1;
  /// Checks that let everything pass (base/checks.h): how the fuzzer itself is tested.
  std::vector<std::string> disabled_checks;
  /// Told now and then how many traces have run, and each finding as it comes, before it is shrunk.
  std::function<void(int64_t traces, const Finding* found)> progress;
};

struct PrimitiveCount {
  int64_t applied = 0;  // in traces that were compiled and run
  std::map<ErrorCode, int64_t> refused;
};

struct FuzzReport {
  int64_t cases = 0;        // made
  int64_t traces = 0;       // of at least one step, compiled and run
  int64_t steps = 0;        // in these, without queries
  int64_t not_lowered = 0;  // refused by lowering or the code generator, with a reason
  double seconds = 0;
  std::map<std::string, PrimitiveCount> primitives;
  std::vector<Finding> findings;

  /// A table: for each primitive how often it was applied and refused, and why; then totals and rate.
  std::string to_text() const;
};

/// Batches of cases run in processes of their own, so that a crash or a hang (20 s) is a finding too.
FuzzReport fuzz(const FuzzOptions& options);

/// Replays a finding as it is printed, program and trace (both may be edited): prints the scheduled and the lowered
/// program and whether it runs right; returns what is left to say.
std::string examine(const FuzzOptions& options, const std::string& finding);

}  // namespace fettle::fuzz
