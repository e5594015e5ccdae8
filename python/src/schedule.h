#pragma once
// Schedules, and what steps name, as Python sees them.

#include <cstdint>
#include <memory>
#include <vector>

#include "binding.h"
#include "decision.h"
#include "generations/autotvm/template/template.h"
#include "schedule/schedule.h"

namespace fettle::python {

/// A schedule of its own, or the one that a template's body works on, for as long as that runs.
struct PySchedule {
  std::shared_ptr<Schedule> own;
  std::shared_ptr<Lease<TemplateContext>> lent;
  std::shared_ptr<const Func> original;  // the program before the first step
  uint64_t lineage = 0;                  // the same for copies: their references mean the same

  Schedule& get() const;
};
PySchedule new_schedule(Schedule schedule, const Func& original);

/// A result of a step. Of another schedule it is refused.
struct PyRef {
  enum class Kind : uint8_t { kLoop, kBlock, kValue };
  Kind kind = Kind::kLoop;
  StepRef ref;
  uint64_t lineage = 0;
};
struct PyLoop : PyRef {};
struct PyBlock : PyRef {};
struct PyValue : PyRef {};
/// Integers multiplied.
struct PyProduct {
  int64_t literal = 1;
  std::vector<StepRef> factors;
  uint64_t lineage = 0;
};

/// The reference, if it is of this schedule. E225
StepRef checked_ref(const PyRef& ref, const PySchedule& schedule);
nb::object to_python(const PySchedule& schedule, StepRef ref, const StepOutput& output);
nb::list loops_to_python(const PySchedule& schedule, const std::vector<LoopRef>& loops);

using Decisions = std::shared_ptr<const DecisionMap>;
/// A dict from addresses to decisions, or None.
Decisions to_decisions(nb::handle value);

}  // namespace fettle::python
