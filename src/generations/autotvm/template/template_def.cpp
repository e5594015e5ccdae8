#include <algorithm>
#include <cmath>
#include <optional>

#include "generations/autotvm/template/draw.h"
#include "generations/autotvm/template/template_def.h"
#include "schedule/primitives/sample_categorical.h"

namespace fettle {
namespace {

// What all points of one workload have in common.
struct Choices {
  Func workload;
  std::shared_ptr<const Target> target;
  std::vector<const TemplateDef*> matching;
  std::vector<std::optional<Result<ConfigSpace>>> spaces;  // of each that matches, once it was wanted
};

class TemplatesSpace : public Space {
 public:
  std::string name() const override { return "templates"; }
  std::unique_ptr<Space> clone() const override { return std::make_unique<TemplatesSpace>(); }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int /*threads*/,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    Choices& choices = choices_of(workload, target);
    const std::vector<const TemplateDef*>& matching = choices.matching;
    if (matching.empty()) return fail(ErrorCode::E238, "no template matches", workload->name);
    Schedule schedule(workload, source, decisions);
    std::vector<std::string> names;
    for (const TemplateDef* def : matching) names.emplace_back(def->name);
    const SampleCategoricalArgs which{
        .candidates = names, .probabilities = std::vector<double>(names.size(), 1.0), .name = "algorithm"};
    FETTLE_TRY_VOID(schedule.step(sample_categorical_def, which));
    const size_t number = chosen_place(*schedule.trace().steps.back());
    const Template made = as_template(*matching[number]);

    std::optional<Result<ConfigSpace>>& kept = choices.spaces[number];
    if (!kept) kept = config_space(made, workload, target);
    if (!*kept) return tl::make_unexpected(kept->error());
    const ConfigSpace& space = **kept;
    FETTLE_TRY(const Config config, draw_config(space, decisions.get(), source, made.name));
    auto chosen = std::make_shared<DecisionMap>(space.decisions(config));
    (*chosen)["algorithm"] = names[number];
    Schedule result(workload, source, chosen);
    result.set_target(std::move(target));
    FETTLE_TRY_VOID(result.step(sample_categorical_def, which));
    TemplateContext context(std::move(result));
    FETTLE_TRY_VOID(made.body(context));
    return std::move(context.schedule());
  }

 private:
  // Of the workload asked for last.
  Choices& choices_of(const Func& workload, const std::shared_ptr<const Target>& target) const {
    if (!choices_ || choices_->workload.get() != workload.get() || choices_->target != target) {
      choices_ = Choices{workload, target, templates_for(workload), {}};
      choices_->spaces.resize(choices_->matching.size());
    }
    return *choices_;
  }

  mutable std::optional<Choices> choices_;  // one thread's, as the space is
};

double distance(const Decision::List& a, const Decision::List& b) {
  if (a.size() != b.size()) return 1e3;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(std::max<int64_t>(a[i], 0)),
                 y = static_cast<double>(std::max<int64_t>(b[i], 0));
    sum += std::abs(std::log2(x + 1) - std::log2(y + 1));
  }
  return sum;
}

}  // namespace

const TemplateDef* find_template(std::string_view name) {
  for (const TemplateDef* def : template_defs())
    if (def->name == name) return def;
  return nullptr;
}

std::vector<const TemplateDef*> templates_for(const Func& workload) {
  std::vector<const TemplateDef*> found;
  for (const TemplateDef* def : template_defs())
    if (def->matches(workload)) found.push_back(def);
  std::ranges::stable_sort(found, [](const TemplateDef* a, const TemplateDef* b) { return a->rank > b->rank; });
  return found;
}

const Space& templates_space() {
  static thread_local const TemplatesSpace space;
  return space;
}

Result<Config> fallback_config(const ConfigSpace& space, const PreferredValues& preferred) {
  // Of each knob the choices, nearest first; then configurations in the order of their distance from the first, as far
  // as one knob at a time leads, and at last all of them.
  std::vector<std::vector<size_t>> order;
  Config config;
  for (const Knob& knob : space.knobs()) {
    std::vector<size_t>& choices = order.emplace_back(knob.choices.size());
    for (size_t i = 0; i < choices.size(); ++i) choices[i] = i;
    const auto wanted = preferred.find(knob.name);
    if (wanted != preferred.end()) {
      std::ranges::stable_sort(choices, [&](size_t a, size_t b) {
        return distance(knob.values[a], wanted->second) < distance(knob.values[b], wanted->second);
      });
    }
    config.push_back(choices.front());
  }
  if (space.allows(config)) return config;
  for (size_t step = 1; step < 64; ++step)
    for (size_t k = 0; k < order.size(); ++k) {
      if (step >= order[k].size()) continue;
      Config other = config;
      other[k] = order[k][step];
      if (space.allows(other)) return other;
    }
  std::optional<Config> first;
  space.enumerate([&](int64_t, const Config& found) {
    first = found;
    return false;
  });
  if (!first) return fail(ErrorCode::E238, "no configuration meets the constraints");
  return *first;
}

}  // namespace fettle
