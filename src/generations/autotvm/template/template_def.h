#pragma once
// The templates that come with Fettle, found for a program by its structure.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generations/autotvm/template/template.h"

namespace fettle {

/// One built-in template: which programs it is for, by their structure and never by an operator's name, and its body.
struct TemplateDef {
  std::string_view name;
  std::string_view meaning;  // one line
  /// Where several match, the one of the highest rank is the first choice.
  int rank;
  bool (*matches)(const Func& workload);
  Result<> (*body)(TemplateContext& t);
};

/// Every built-in template, from the sources in generations/autotvm/template/templates/.
std::span<const TemplateDef* const> template_defs();
/// The one named `name`, or null.
const TemplateDef* find_template(std::string_view name);
/// Those that match the program, best first. The last one is master, which matches every program of plain nests.
std::vector<const TemplateDef*> templates_for(const Func& workload);
inline Template as_template(const TemplateDef& def) { return {std::string(def.name), def.body}; }

/// The spaces of all templates that match a program, as one. The template is a decision like any other, under the
/// address "algorithm". That is the first in the order of addresses, so a search by grid walks through one template
/// after the other. Errors of generate: E238 no template matches
const Space& templates_space();

/// Values of knobs, as constraints see them, by the knobs' names.
using PreferredValues = std::map<std::string, std::vector<int64_t>>;
/// A configuration to start from where nothing was measured. For each knob that `preferred` names it is the choice
/// nearest to it (numbers are compared by their logarithms, part by part), for the others the first. The nearest one
/// that meets the constraints is taken. E238 no configuration meets them. (AutoTVM's fallback)
Result<Config> fallback_config(const ConfigSpace& space, const PreferredValues& preferred = {});

}  // namespace fettle
