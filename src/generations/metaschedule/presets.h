#pragma once
// MetaSchedule's defaults by target.

#include <memory>
#include <string_view>
#include <vector>

#include "generations/ansor/search/mutators.h"
#include "generations/metaschedule/postprocessor.h"
#include "generations/metaschedule/schedule_rule.h"
#include "tune/space/space.h"

namespace fettle {

/// "llvm" (any CPU), "x86" and "arm" (with the dot products that the CPU has), "riscv", "cuda" (any GPU),
/// "cuda-tensorcore", "dsp" (wide vectors).
struct Preset {
  std::string_view name;
  std::vector<ScheduleRule> rules;
  std::vector<Postprocessor> postprocessors;
  std::vector<WeightedMutator> mutators;
};

/// The preset called `name`. E241 no such preset
Result<Preset> find_preset(std::string_view name);
/// The one for a target.
std::string_view preset_name(const Target& target);
std::vector<std::string_view> preset_names();

/// PostOrderApply with the preset of the target that it is asked for.
std::unique_ptr<Space> make_metaschedule_space();

}  // namespace fettle
