#include "search/modes.h"

#include "generations/ansor/sketch/sketch_space.h"
#include "generations/registry.h"

namespace fettle::bench {

const std::vector<SearchMode>& search_modes() {
  static const std::vector<SearchMode> modes = {
      {"autotvm", "template", "annealing", 64, true, "autotvm_itervar_rank"},
      {"ansor", "drawn-sketches", "ansor", 64, true, "statements_residual"},
      {"metaschedule", "metaschedule", "metaschedule", 64, true},
      {.name = "fettle", .space = "rules", .strategy = "evolutionary", .from_default = true},
      {"random", "rules", "random"},
  };
  return modes;
}

std::optional<SearchMode> find_mode(const std::string& name) {
  for (const SearchMode& mode : search_modes())
    if (mode.name == name) return mode;
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string rest = name.substr(colon + 1);
  const size_t second = rest.find(':');
  SearchMode mode{.name = name, .space = name.substr(0, colon), .strategy = rest.substr(0, second)};
  if (mode.strategy == "ansor") mode.cost_model = "statements_residual";
  if (second != std::string::npos) mode.cost_model = rest.substr(second + 1);
  mode.as_published = mode.space != "rules";
  mode.from_default = !mode.as_published;
  if (mode.as_published) mode.batch = 64;
  if (!make_space(mode.space) || !find_strategy(mode.strategy) || !find_cost_model(mode.cost_model))
    return std::nullopt;
  return mode;
}

std::unique_ptr<Space> make_space(const std::string& name) {
  // Every program of it equally likely, which no generation has.
  if (name == "sketches") return make_sketch_space();
  const SpaceDef* def = find_space(name == "drawn-sketches" ? "ansor" : name);
  return def ? def->make() : nullptr;
}

}  // namespace fettle::bench
