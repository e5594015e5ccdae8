#include "frontend/stablehlo/module.h"

#include <algorithm>

namespace fettle::stablehlo {

const Attribute* find_attribute(const Attributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attributes::value_type::first);
  return found == attributes.end() ? nullptr : &found->second;
}

const Function* Module::find(std::string_view function) const {
  const auto found = std::ranges::find(functions, function, &Function::name);
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace fettle::stablehlo
