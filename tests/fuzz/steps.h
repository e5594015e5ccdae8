#pragma once
// Random schedules: every primitive with random arguments; what is refused is skipped.

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "schedule/schedule.h"

namespace fettle::fuzz {

/// One step was tried.
using Tried = std::function<void(const PrimitiveDef& def, ErrorCode refused)>;

struct Made {
  Schedule schedule;  // as far as it verifies
  int applied = 0;    // steps of it that are no queries
};

/// Up to `actions` random actions on `func`: single steps with random arguments, and now and then the steps of a
/// micro-kernel in their order. The result is the last state that `verify` lets pass; what came after it is dropped.
Made random_schedule(const Func& func, const std::shared_ptr<const Target>& target, uint64_t seed, int actions,
                     const Tried& tried);

/// As random_schedule, of a program of random_affine_program: first other orders of its iterations.
Made random_affine_schedule(const Func& func, const std::shared_ptr<const Target>& target, uint64_t seed, int actions,
                            const Tried& tried);

/// The names of the primitives that there is a generator for.
std::vector<std::string_view> generated_primitives();

/// The trace without the steps whose numbers are in `dropped`, and without whatever then refers to nothing, run anew on
/// `func`; steps that are refused now are left out.
Schedule replay_without(const Func& func, const std::shared_ptr<const Target>& target, const ParsedTrace& trace,
                        const std::vector<bool>& dropped);

}  // namespace fettle::fuzz
