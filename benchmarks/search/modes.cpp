#include "search/modes.h"

#include "search/loop_template.h"
#include "tune/metaschedule/presets.h"
#include "tune/sketch/sketch_space.h"

namespace fettle::bench {
namespace {

/// The constant space of the built-in rules, as one to be owned.
class RuleSpaceCopy : public Space {
 public:
  std::string name() const override { return rule_space().name(); }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads, uint64_t seed,
                            std::shared_ptr<const DecisionMap> decisions) const override {
    return rule_space().generate(workload, std::move(target), threads, seed, std::move(decisions));
  }
};

/// Its template depends on the threads.
class LoopTemplateSpace : public Space {
 public:
  std::string name() const override { return "template"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads, uint64_t seed,
                            std::shared_ptr<const DecisionMap> decisions) const override {
    return template_space(loop_template(threads))
        ->generate(workload, std::move(target), threads, seed, std::move(decisions));
  }
};

}  // namespace

const std::vector<SearchMode>& search_modes() {
  static const std::vector<SearchMode> modes = {
      {"autotvm", "template", "annealing", 64, true},
      {"ansor", "sketches", "ansor", 64, true},
      {"metaschedule", "metaschedule", "metaschedule", 64, true},
      {"fourth", "rules", "evolutionary"},
      {"racing", "rules", "racing"},
      {"random", "rules", "random"},
  };
  return modes;
}

std::optional<SearchMode> find_mode(const std::string& name) {
  for (const SearchMode& mode : search_modes())
    if (mode.name == name) return mode;
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return std::nullopt;
  SearchMode mode{.name = name, .space = name.substr(0, colon), .strategy = name.substr(colon + 1)};
  mode.as_published = mode.space != "rules";
  if (mode.as_published) mode.batch = 64;
  if (!make_space(mode.space) || !find_strategy(mode.strategy)) return std::nullopt;
  return mode;
}

std::unique_ptr<Space> make_space(const std::string& name) {
  if (name == "rules") return std::make_unique<RuleSpaceCopy>();
  if (name == "sketches") return make_sketch_space();
  if (name == "template") return std::make_unique<LoopTemplateSpace>();
  if (name == "metaschedule") return make_metaschedule_space();
  return nullptr;
}

}  // namespace fettle::bench
