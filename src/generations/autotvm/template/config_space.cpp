#include "generations/autotvm/template/config_space.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fettle {

const Decision::List& ConfigView::operator[](std::string_view knob) const {
  static const Decision::List none;
  const std::vector<Knob>& knobs = space_.knobs();
  for (size_t k = 0; k < knobs.size() && k < config_.size(); ++k)
    if (knobs[k].name == knob) return knobs[k].values[config_[k]];
  return none;
}

Result<> ConfigSpace::add(Knob knob) {
  if (knob.choices.empty()) return fail(ErrorCode::E237, fmt::format("knob {} has no choices", knob.name));
  if (std::ranges::find(knobs_, knob.name, &Knob::name) != knobs_.end()) return fail(ErrorCode::E239, knob.name);
  if (knob.values.empty())
    for (const Decision& choice : knob.choices) knob.values.push_back(choice.list());
  knobs_.push_back(std::move(knob));
  return {};
}

void ConfigSpace::constrain(std::string what, Constraint constraint) {
  constraints_.emplace_back(std::move(what), std::move(constraint));
}

int64_t ConfigSpace::size() const {
  int64_t size = 1;
  for (const Knob& knob : knobs_)
    if (__builtin_mul_overflow(size, static_cast<int64_t>(knob.choices.size()), &size)) return INT64_MAX;
  return size;
}

int64_t ConfigSpace::count() const {
  if (constraints_.empty()) return size();
  int64_t count = 0;
  enumerate([&](int64_t, const Config&) { return ++count, true; });
  return count;
}

Result<Config> ConfigSpace::at(int64_t index) const {
  if (index < 0 || index >= size())
    return fail(ErrorCode::E238, fmt::format("index {} of a space of {}", index, size()));
  Config config;
  for (const Knob& knob : knobs_) {
    const auto choices = static_cast<int64_t>(knob.choices.size());
    config.push_back(static_cast<size_t>(index % choices));
    index /= choices;
  }
  return config;
}

Result<int64_t> ConfigSpace::index_of(const Config& config) const {
  bool fits = config.size() == knobs_.size();
  int64_t index = 0;
  for (size_t k = knobs_.size(); fits && k-- > 0;) {
    const auto choices = static_cast<int64_t>(knobs_[k].choices.size());
    fits = config[k] < knobs_[k].choices.size() && !__builtin_mul_overflow(index, choices, &index) &&
           !__builtin_add_overflow(index, static_cast<int64_t>(config[k]), &index);
  }
  if (!fits) return fail(ErrorCode::E238, fmt::format("[{}] is no configuration", fmt::join(config, ", ")));
  return index;
}

bool ConfigSpace::allows(const Config& config) const {
  if (config.size() != knobs_.size()) return false;
  for (size_t k = 0; k < knobs_.size(); ++k)
    if (config[k] >= knobs_[k].choices.size()) return false;
  const ConfigView view(*this, config);
  return std::ranges::all_of(constraints_, [&](const auto& c) { return c.second(view); });
}

Result<> ConfigSpace::check(const Config& config) const {
  if (allows(config)) return {};
  FETTLE_TRY(const int64_t index, index_of(config));
  const ConfigView view(*this, config);
  for (const auto& [what, constraint] : constraints_)
    if (!constraint(view))
      return fail(ErrorCode::E238, fmt::format("number {} ({}) does not meet \"{}\"", index, to_text(config), what));
  return {};
}

void ConfigSpace::enumerate(const std::function<bool(int64_t, const Config&)>& fn) const {
  Config config(knobs_.size(), 0);
  for (int64_t index = 0;; ++index) {
    const ConfigView view(*this, config);
    const bool meets = std::ranges::all_of(constraints_, [&](const auto& c) { return c.second(view); });
    if (meets && !fn(index, config)) return;
    size_t k = 0;
    while (k < knobs_.size() && ++config[k] == knobs_[k].choices.size()) config[k++] = 0;
    if (k == knobs_.size()) return;
  }
}

DecisionMap ConfigSpace::decisions(const Config& config) const {
  DecisionMap decisions;
  for (size_t k = 0; k < knobs_.size(); ++k) decisions[knobs_[k].name] = knobs_[k].choices[config[k]];
  return decisions;
}

Result<Config> ConfigSpace::find(const DecisionMap& decisions) const {
  Config config;
  for (const Knob& knob : knobs_) {
    const auto decision = decisions.find(knob.name);
    const auto choice =
        decision == decisions.end() ? knob.choices.end() : std::ranges::find(knob.choices, decision->second);
    if (choice == knob.choices.end())
      return fail(ErrorCode::E238, fmt::format("knob {} has none of its choices", knob.name));
    config.push_back(static_cast<size_t>(choice - knob.choices.begin()));
  }
  return config;
}

std::string ConfigSpace::to_text(const Config& config) const {
  std::string text;
  for (size_t k = 0; k < knobs_.size(); ++k)
    text += fmt::format("{}{}=[{}]", k ? ", " : "", knobs_[k].name, fmt::join(knobs_[k].values[config[k]], ", "));
  return text;
}

}  // namespace fettle
