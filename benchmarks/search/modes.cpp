#include "search/modes.h"

#include "tune/metaschedule/presets.h"
#include "tune/named_cost_models.h"
#include "tune/sketch/sketch_space.h"
#include "tune/template/template_def.h"

namespace fettle::bench {
namespace {

/// A space that lives as long as the program, as one to be owned.
class BorrowedSpace : public Space {
 public:
  explicit BorrowedSpace(const Space& space) : space_(space) {}
  std::string name() const override { return space_.name(); }
  bool draws_by_address() const override { return space_.draws_by_address(); }
  std::unique_ptr<Space> clone() const override { return space_.clone(); }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    return space_.generate(workload, std::move(target), threads, source, std::move(decisions));
  }

 private:
  const Space& space_;
};

}  // namespace

const std::vector<SearchMode>& search_modes() {
  static const std::vector<SearchMode> modes = {
      {"autotvm", "template", "annealing", 64, true, "autotvm_itervar_rank"},
      {"ansor", "drawn-sketches", "ansor", 64, true, "statements_residual"},
      {"metaschedule", "metaschedule", "metaschedule", 64, true},
      {.name = "fourth", .space = "rules", .strategy = "evolutionary", .from_default = true},
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
  if (name == "rules") return std::make_unique<BorrowedSpace>(rule_space());
  if (name == "sketches") return make_sketch_space();
  if (name == "drawn-sketches") return make_sketch_space({.equally_likely = EquallyLikely::kChoices});
  if (name == "template") return std::make_unique<BorrowedSpace>(templates_space());
  if (name == "metaschedule") return make_metaschedule_space();
  return nullptr;
}

}  // namespace fettle::bench
