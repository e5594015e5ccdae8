#include "frontend/stablehlo/functions.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/types.h"

namespace fettle::stablehlo {
namespace {

Attribute take(Attributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attributes::value_type::first);
  if (found == attributes.end()) return {};
  Attribute value = std::move(found->second);
  attributes.erase(found);
  return value;
}

// A list of dictionaries, one for each argument or result.
std::vector<Attributes> listed(const Attribute& given, size_t count) {
  std::vector<Attributes> all(count);
  const auto* list = given.get_if<std::vector<Attribute>>();
  for (size_t i = 0; list && i < std::min(count, list->size()); ++i)
    if (const auto* attributes = (*list)[i].get_if<Attributes>()) all[i] = *attributes;
  return all;
}

}  // namespace

Result<Function> to_function(Op op) {
  const auto without = [](std::string_view what) {
    return fail(ErrorCode::E602, fmt::format("a function without {}", what));
  };
  Function function;
  const Attribute name = take(op.attributes, "sym_name"), type = take(op.attributes, "function_type");
  const Attribute visibility = take(op.attributes, "sym_visibility");
  if (!name.get_if<std::string>()) return without("sym_name");
  const Type* types = type.get_if<Type>();
  if (!types || types->kind != Type::Kind::kFunction) return without("function_type");
  function.name = *name.get_if<std::string>();
  const auto* text = visibility.get_if<std::string>();
  function.is_public = !text || text->empty() || *text == "public";
  function.result_types = types->results;
  if (op.regions.size() == 1 && !op.regions[0].blocks.empty()) function.body = std::move(op.regions[0].blocks[0]);
  if (function.body.ops.empty() && function.body.arguments.empty()) {
    for (size_t i = 0; i < types->inputs.size(); ++i) function.body.arguments.push_back(static_cast<ValueId>(i));
    function.body.argument_types = types->inputs;
  }
  if (!std::ranges::equal(function.body.argument_types, types->inputs, same_type))
    return without("arguments of the types that it says");
  function.argument_attributes = listed(take(op.attributes, "arg_attrs"), types->inputs.size());
  function.result_attributes = listed(take(op.attributes, "res_attrs"), types->results.size());
  return function;
}

Result<> check_names(const Module& module, std::string_view label) {
  for (const Function& function : module.functions)
    if (module.find(function.name) != &function)
      return fail(ErrorCode::E602, fmt::format("two functions @{}", function.name), std::string(label));
  return {};
}

void name_module(Module& module, Attributes attributes) {
  const Attribute name = take(attributes, "sym_name");
  take(attributes, "sym_visibility");
  if (const auto* text = name.get_if<std::string>()) module.name = *text;
  module.attributes = std::move(attributes);
}

}  // namespace fettle::stablehlo
