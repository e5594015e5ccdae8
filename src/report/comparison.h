#pragma once
// Two runs of a tuner, or two compiled models, task by task.

#include <utility>
#include <vector>

#include "driver/load.h"
#include "report/run_report.h"
#include "runtime/model.h"

namespace fettle {

/// One task that both have; times of one call, in s.
struct ComparedTask {
  Digest hash;
  std::string label;
  double before_s = 0, after_s = 0;  // 0: not measured
  double saved_s = 0;                // of one run of the model; less than 0: it became slower
  double share = 0;                  // of what all tasks save; 0 where they save nothing
  // What the machine's peaks allow, over what was reached; 0: not known.
  double of_limit_before = 0, of_limit_after = 0;
};

struct Comparison {
  std::vector<ComparedTask> tasks;  // the one that changes most first
  size_t only_before = 0, only_after = 0;
  double before_s = 0, after_s = 0;  // one run of the model
};

/// Tasks are the same where their hashes are.
Comparison compare(const RunReport& before, const RunReport& after);

/// Two compiled models, timed in turns on the same random inputs: each kernel is a task, which is known by its name and
/// its nodes. The first is of `before`. The machine's limits are not known. Errors: those of random_inputs and of
/// running.
Result<std::pair<RunReport, RunReport>> time_compiled(const Model& before, const Model& after,
                                                      const InputShapes& shapes);

}  // namespace fettle
