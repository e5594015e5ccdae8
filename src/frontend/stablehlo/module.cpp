#include "frontend/stablehlo/module.h"

#include <algorithm>

namespace fettle::stablehlo {

const std::string* sort_by_name(Attributes& attributes) {
  std::ranges::stable_sort(attributes, {}, &Attributes::value_type::first);
  const auto twice = std::ranges::adjacent_find(attributes, {}, &Attributes::value_type::first);
  return twice == attributes.end() ? nullptr : &twice->first;
}

const Attribute* find_attribute(const Attributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attributes::value_type::first);
  return found == attributes.end() ? nullptr : &found->second;
}

const Function* Module::find(std::string_view function) const {
  const auto found = std::ranges::find(functions, function, &Function::name);
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace fettle::stablehlo
