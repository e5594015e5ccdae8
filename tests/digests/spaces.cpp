#include "tests/digests/spaces.h"

#include <utility>

#include "generations/ansor/sketch/sketch_space.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/metaschedule/presets.h"
#include "tune/space/space.h"

namespace fettle::digests {

const std::vector<NamedTarget>& named_targets() {
  static const std::vector<NamedTarget> targets = {
      {"avx2", "x86-64-avx2"}, {"avx512", "x86-64-avx512"}, {"neon", "aarch64-neon"}, {"sm_80", "cuda -arch sm_80"}};
  return targets;
}

std::vector<PointMaker> point_makers(const Func& workload, const std::shared_ptr<const Target>& target) {
  std::vector<PointMaker> makers;
  const auto add = [&](std::string name, std::shared_ptr<const Space> space) {
    makers.push_back({.space = std::move(name), .make = [workload, target, space = std::move(space)](uint64_t point) {
                        return space->generate(workload, target, kThreads, DecisionSource::by_number(point), nullptr);
                      }});
  };
  if (!target->has_threads()) {
    makers.push_back({.space = "default", .points = 1, .make = [workload, target](uint64_t) {
                        return default_schedule(workload, target, kThreads);
                      }});
    add("rules", {std::shared_ptr<const Space>(), &rule_space()});
    for (const TemplateDef* def : templates_for(workload))
      add("template/" + std::string(def->name), template_space(as_template(*def)));
  }
  add("sketches", make_sketch_space());
  add("metaschedule", make_metaschedule_space());
  return makers;
}

}  // namespace fettle::digests
