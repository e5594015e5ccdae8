#pragma once
// Branches of a model that leave threads idle run at once.

#include <functional>

#include "graph/plan/plan.h"

namespace fettle {

/// What a call takes, in seconds.
struct CallSeconds {
  double on_all = 0;  // with all threads
  double on_one = 0;  // while the others run other calls; infinity: it cannot run so
};

struct SectionOptions {
  int threads = 1;
  double fork_join_s = 0;  // what running sections takes beside what they do
  /// Asked of calls alone that others could run beside, of each many times.
  std::function<CallSeconds(int call)> seconds;
};

/// Successive steps that fall into parts which need nothing of one another become sections (PlanStep), at most one a
/// thread, where the longest of them is predicted to take plainly less than all steps one after the other. A kernel in
/// a section runs on that section's thread alone. A loop is a step as a call is; what stands in a body becomes sections
/// of its own. Kernels of open sizes, which may be large some day, and host functions stay outside. Before
/// assign_memory.
void run_in_sections(Plan& plan, const SectionOptions& options);

}  // namespace fettle
