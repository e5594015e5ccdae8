#pragma once
// The space of a template's configurations: named knobs, each with a finite list of choices. (Chen et al.: Learning to
// Optimize Tensor Programs, NeurIPS 2018; AutoTVM's ConfigSpace.)

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// A named choice. Its name is the address of the sampling step that stands for it in the trace.
struct Knob {
  std::string name;
  std::vector<Decision> choices;       // as the sampling step records them
  std::vector<Decision::List> values;  // as a constraint sees them: sizes of a cut, an order, the number of a knob
};

/// The number of a choice, one a knob, in the order of the knobs.
using Config = std::vector<size_t>;

class ConfigSpace;

/// What a constraint looks at: the values of a configuration by the names of the knobs.
class ConfigView {
 public:
  ConfigView(const ConfigSpace& space, const Config& config) : space_(space), config_(config) {}
  /// The value of the knob; empty where there is no such knob.
  const Decision::List& operator[](std::string_view knob) const;

 private:
  const ConfigSpace& space_;
  const Config& config_;
};

class ConfigSpace {
 public:
  using Constraint = std::function<bool(const ConfigView&)>;

  /// E237 no choices · E239 there is a knob of that name
  Result<> add(Knob knob);
  /// Configurations for which it is false are left out. `what` is said where one is asked for all the same.
  void constrain(std::string what, Constraint constraint);

  const std::vector<Knob>& knobs() const { return knobs_; }
  /// Configurations, those that constraints leave out included: their indices are 0 … size() - 1. INT64_MAX where there
  /// are more.
  int64_t size() const;
  /// Configurations that meet all constraints. Walks through all of them.
  int64_t count() const;

  /// Index ↔ configuration, the first knob changing fastest. E238 out of range
  Result<Config> at(int64_t index) const;
  Result<int64_t> index_of(const Config& config) const;

  /// Whether it is one of the space's, and meets all constraints.
  bool allows(const Config& config) const;
  /// E238 naming the constraint, where one is not met.
  Result<> check(const Config& config) const;
  /// Calls `fn` with each configuration that meets all constraints, in the order of indices, until it returns false.
  void enumerate(const std::function<bool(int64_t index, const Config& config)>& fn) const;

  /// Decisions of the configuration, by address.
  DecisionMap decisions(const Config& config) const;
  /// The configuration that has these decisions. E238 a knob has none, or none of its choices
  Result<Config> find(const DecisionMap& decisions) const;
  /// "tile_y=[8, 64], tile_x=[128, 4]"
  std::string to_text(const Config& config) const;

 private:
  std::vector<Knob> knobs_;
  std::vector<std::pair<std::string, Constraint>> constraints_;
};

}  // namespace fettle
