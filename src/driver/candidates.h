#pragma once
// Whose kernel is faster, task by task: Fettle's own as it is planned, beside what other sources offer.

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel_source.h"
#include "driver/plan_model.h"

namespace fettle {

/// What a source says to a task.
struct TaskOffer {
  std::string source;    // its name: "onednn"
  std::string kernel;    // the library's name of what it offers; empty: it declines
  double seconds = 0;    // of one call; 0: it declines
  std::string declined;  // why
};

/// The times of one task, of one call. Kernels are timed in turn, in this process, on the same memory.
struct TaskCandidates {
  double own_s = 0;
  std::vector<TaskOffer> offers;  // one a source
};

/// Of each task of the model, in the order of PlannedModel::tasks. `seconds`: for each kernel that is timed, at most.
/// A task whose kernel is a source's already has as its own the default. Errors: those of schedule_for and LocalKernel.
Result<std::vector<TaskCandidates>> time_candidates(const PlannedModel& planned, const KernelSources& sources,
                                                    double seconds = 0.1);

}  // namespace fettle
