#pragma once
// A template's knobs as the decider of a part (tune/parts/).

#include "base/check.h"
#include "generations/autotvm/template/template.h"
#include "tune/parts/decider.h"

namespace fettle {

/// Each choice is a knob: of its name and `suffix`, with its candidates as values. Parts work on t.schedule().
class KnobDecider : public Decider {
 public:
  explicit KnobDecider(TemplateContext& t, std::string suffix = "") : t_(t), suffix_(std::move(suffix)) {}
  Result<size_t> pick_place(Schedule& s, Choice choice) override {
    FETTLE_CHECK(&s == &t_.schedule());
    return t_.define_choice(choice.name + suffix_, choice.candidates);
  }
  bool draws() const override { return true; }

 private:
  TemplateContext& t_;
  const std::string suffix_;
};

}  // namespace fettle
