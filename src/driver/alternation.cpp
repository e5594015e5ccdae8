#include "driver/alternation.h"

#include <utility>

#include "target/caches.h"

namespace fettle {
namespace {

class Finder {
 public:
  explicit Finder(const PlannedModel& planned)
      : planned_(planned), loops_(planned.plan.calls.size(), -1), l2_(cache_bytes(planned.options.target, 1)) {}

  std::vector<int> run() && {
    visit(planned_.plan.steps, -1);
    return std::move(loops_);
  }

 private:
  int64_t constant_bytes(size_t call) const {
    int64_t bytes = 0;
    for (const int stored : planned_.constants.of_call[call])
      if (stored >= 0) bytes += planned_.constants.stored[static_cast<size_t>(stored)].size_bytes;
    return bytes;
  }

  /// What the steps, which are in an iteration of `loop`, read of constants.
  int64_t visit(const std::vector<PlanStep>& steps, int loop) {
    int64_t total = 0;
    for (const PlanStep& step : steps) {
      if (step.kind == PlanStep::Kind::kCall) {
        const auto call = static_cast<size_t>(step.call);
        total += constant_bytes(call);
        if (loop >= 0) inside_.push_back(call);
        continue;
      }
      if (step.kind != PlanStep::Kind::kLoop) {
        total += visit(step.body, loop) + visit(step.otherwise, loop);
        continue;
      }
      const std::vector<size_t> outer = std::exchange(inside_, {});
      const int64_t all = visit(step.body, step.loop);
      for (const size_t call : inside_)
        if (const int64_t bytes = constant_bytes(call); 2 * bytes > l2_ && 2 * bytes >= all) loops_[call] = step.loop;
      inside_ = outer;
      total += all;
    }
    return total;
  }

  const PlannedModel& planned_;
  std::vector<int> loops_;
  std::vector<size_t> inside_;  // calls of the innermost loop so far
  int64_t l2_;
};

}  // namespace

std::vector<int> alternating_calls(const PlannedModel& planned) { return Finder(planned).run(); }

std::vector<bool> alternating_requests(const PlannedModel& planned) {
  const std::vector<int> loops = planned.options.target.has_threads() ? std::vector<int>() : alternating_calls(planned);
  std::vector<bool> workloads(planned.plan.workloads.size(), false);
  for (size_t c = 0; c < loops.size(); ++c)
    if (loops[c] >= 0) workloads[static_cast<size_t>(planned.plan.calls[c].workload)] = true;
  std::vector<bool> requests = workloads;  // one a workload comes first
  requests.resize(planned.requests.size(), false);
  for (const PlannedClass& of : planned.classes) requests[of.request] = workloads[static_cast<size_t>(of.workload)];
  return requests;
}

}  // namespace fettle
