#include "frontend/stablehlo/defaults.h"

#include <algorithm>

namespace fettle::stablehlo {
namespace {

enum class Default : uint8_t { kFalse, kTrue, kZero, kOne, kMinusOne, kNoItems, kNoEntries, kNoText };
struct DefaultDef {
  std::string_view op, attribute;
  Default value;
};
constexpr DefaultDef kDefaults[] = {
    {"chlo.scan", "is_reverse", Default::kFalse},
    {"chlo.top_k", "is_stable", Default::kTrue},
    {"stablehlo.cholesky", "lower", Default::kFalse},
    {"stablehlo.composite", "composite_attributes", Default::kNoEntries},
    {"stablehlo.composite", "version", Default::kZero},
    {"stablehlo.custom_call", "api_version", Default::kOne},
    {"stablehlo.custom_call", "called_computations", Default::kNoItems},
    {"stablehlo.custom_call", "has_side_effect", Default::kFalse},
    {"stablehlo.custom_call", "output_operand_aliases", Default::kNoItems},
    {"stablehlo.dynamic_gather", "indices_are_sorted", Default::kFalse},
    {"stablehlo.gather", "indices_are_sorted", Default::kFalse},
    {"stablehlo.infeed", "infeed_config", Default::kNoText},
    {"stablehlo.outfeed", "outfeed_config", Default::kNoText},
    {"stablehlo.recv", "is_host_transfer", Default::kFalse},
    {"stablehlo.scatter", "indices_are_sorted", Default::kFalse},
    {"stablehlo.scatter", "unique_indices", Default::kFalse},
    {"stablehlo.send", "is_host_transfer", Default::kFalse},
    {"stablehlo.sort", "dimension", Default::kMinusOne},
    {"stablehlo.sort", "is_stable", Default::kFalse},
};

Attribute value_of(Default value) {
  Attribute attribute;
  switch (value) {
    case Default::kFalse:
    case Default::kTrue:
      attribute.value = value == Default::kTrue;
      break;
    case Default::kZero:
    case Default::kOne:
    case Default::kMinusOne:
      attribute.value = int64_t{value == Default::kOne ? 1 : value == Default::kZero ? 0 : -1};
      break;
    case Default::kNoItems:
      attribute.value = std::vector<Attribute>();
      break;
    case Default::kNoEntries:
      attribute.value = Attributes();
      break;
    case Default::kNoText:
      attribute.value = std::string();
      break;
  }
  return attribute;
}

bool asks_for_nothing(const Attribute& attribute) {
  const auto* accuracy = attribute.get_if<StructValue>();
  if (!accuracy || accuracy->kind != "result_accuracy") return false;
  return std::ranges::all_of(accuracy->fields, [](const Attributes::value_type& field) {
    if (const auto* mode = field.second.get_if<EnumValue>()) return mode->value == "DEFAULT";
    if (const auto* number = field.second.get_if<double>()) return *number == 0;
    const auto* ulps = field.second.get_if<int64_t>();
    return ulps && *ulps == 0;
  });
}

}  // namespace

void complete(Op& op) {
  std::erase_if(op.attributes, [](const Attributes::value_type& attribute) {
    return attribute.first == "result_accuracy" && asks_for_nothing(attribute.second);
  });
  bool is_changed = false;
  for (const DefaultDef& def : kDefaults) {
    if (def.op != op.name || find_attribute(op.attributes, def.attribute)) continue;
    op.attributes.emplace_back(def.attribute, value_of(def.value));
    is_changed = true;
  }
  if (is_changed) std::ranges::stable_sort(op.attributes, {}, &Attributes::value_type::first);
}

}  // namespace fettle::stablehlo
