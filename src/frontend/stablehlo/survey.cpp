#include "frontend/stablehlo/survey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/importer.h"
#include "frontend/stablehlo/refused.h"

namespace fettle {
namespace stablehlo {

std::vector<std::string> entry_names(const Module& module) {
  std::vector<std::string> names;
  for (const Function& function : module.functions)
    if (function.is_public || function.name == "main") names.push_back(function.name);
  return names;
}

Result<const Function*> entry_of(const Module& module, std::string_view name) {
  const std::vector<std::string> names = entry_names(module);
  if (names.empty()) return fail(ErrorCode::E602, "it has no public function");
  if (name.empty()) name = names.size() == 1 ? names[0] : std::string_view("main");
  if (std::ranges::find(names, name) != names.end()) return module.find(name);
  return fail(ErrorCode::E709,
              fmt::format("there is no public function \"{}\"; there are: {}", name, fmt::join(names, ", ")));
}

std::vector<std::string_view> called_functions(const Op& op) {
  std::vector<std::string_view> names;
  const auto add = [&](const Attribute& attribute) {
    if (const auto* symbol = attribute.get_if<SymbolRef>()) names.push_back(symbol->name);
  };
  for (const std::string_view name : {"callee", "decomposition", "called_computations"}) {
    const Attribute* attribute = find_attribute(op.attributes, name);
    if (!attribute) continue;
    add(*attribute);
    if (const auto* list = attribute->get_if<std::vector<Attribute>>()) std::ranges::for_each(*list, add);
  }
  return names;
}

std::string name_of(const std::vector<Attributes>& attributes, size_t i, std::string_view key, const char* otherwise) {
  if (i < attributes.size())
    if (const Attribute* found = find_attribute(attributes[i], key))
      if (const auto* text = found->get_if<std::string>(); text && !text->empty()) return *text;
  return fmt::format("{}{}", otherwise, i);
}

bool is_return(const Op& op) { return op.name == "stablehlo.return" || op.name == "func.return"; }

std::string place_of(const Op& op) {
  if (op.place.empty() || op.place == op.location) return op.location;
  return fmt::format("{}, {}", op.location, op.place);
}

Diagnostic placed(Diagnostic diagnostic, const Op& op) {
  const std::string place = place_of(op);
  if (place.empty())
    diagnostic.where = label_of(op);
  else if (diagnostic.where.find(op.location) == std::string::npos)
    diagnostic.where = fmt::format("{}, {}", label_of(op), place);
  else if (diagnostic.where.find(op.place) == std::string::npos)
    diagnostic.where += ", " + op.place;
  return diagnostic;
}

Survey::Survey(const Module& module, std::string_view function) : module_(module) {
  if (const auto entry = entry_of(module, function)) visit(**entry);
}

std::vector<Diagnostic> Survey::problems() const {
  std::vector<Diagnostic> list;
  for (const Op* op : unknown_) list.push_back(placed({ErrorCode::E603, why_refused(*op)}, *op));
  return list;
}

void Survey::visit(const Function& function) {
  if (seen_.insert(&function).second) visit(function.body);
}

void Survey::visit(const Block& block) {
  for (const Op& op : block.ops) {
    if (is_return(op)) continue;
    const bool is_new = ++operators_[label_of(op)] == 1;
    if (!find_entry(op) && is_new) unknown_.push_back(&op);
    if (op.name == "stablehlo.constant")
      if (const Attribute* value = find_attribute(op.attributes, "value"))
        if (const auto* elements = value->get_if<DenseElements>()) constants_.push_back(elements);
    for (const std::string_view name : called_functions(op))
      if (const Function* function = module_.find(name)) visit(*function);
    for (const Region& region : op.regions)
      for (const Block& inner : region.blocks) visit(inner);
  }
}

}  // namespace stablehlo

ModelSurvey survey_stablehlo(const stablehlo::Module& module, std::string_view name) {
  ModelSurvey made;
  made.format = module.version.empty() ? "StableHLO, text" : fmt::format("StableHLO {}, bytecode", module.version);
  const stablehlo::Survey survey(module, name);
  made.operators = survey.operators();
  for (const stablehlo::Op* op : survey.unknown())
    made.missing[stablehlo::label_of(*op)].push_back(stablehlo::place_of(*op));
  for (const stablehlo::DenseElements* constant : survey.constants()) {
    made.parameters += constant->data.n_elems();
    made.parameter_bytes += constant->data.size_bytes;
    made.parameter_types[constant->data.dtype.to_string()] += constant->data.n_elems();
  }
  const auto entry = stablehlo::entry_of(module, name);
  if (!entry) return made;
  const stablehlo::Function& function = **entry;
  for (size_t i = 0; i < function.body.arguments.size(); ++i)
    made.inputs.emplace_back(stablehlo::name_of(function.argument_attributes, i, "jax.arg_info", "arg"),
                             function.body.argument_types[i].to_string());
  for (size_t i = 0; i < function.result_types.size(); ++i)
    made.outputs.emplace_back(stablehlo::name_of(function.result_attributes, i, "jax.result_info", "result"),
                              function.result_types[i].to_string());
  return made;
}

}  // namespace fettle
