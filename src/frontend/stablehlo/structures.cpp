#include "frontend/stablehlo/structures.h"

#include <algorithm>

namespace fettle::stablehlo {
namespace {

using Default = FieldDef::Default;

constexpr FieldDef kDot[] = {{"lhs_batching_dimensions", Default::kNoInts},
                             {"rhs_batching_dimensions", Default::kNoInts},
                             {"lhs_contracting_dimensions", Default::kNoInts},
                             {"rhs_contracting_dimensions", Default::kNoInts}};
constexpr FieldDef kRaggedDot[] = {
    {"lhs_batching_dimensions", Default::kNoInts},    {"rhs_batching_dimensions", Default::kNoInts},
    {"lhs_contracting_dimensions", Default::kNoInts}, {"rhs_contracting_dimensions", Default::kNoInts},
    {"lhs_ragged_dimensions", Default::kNoInts},      {"rhs_group_dimensions", Default::kNoInts}};
constexpr FieldDef kGather[] = {
    {"offset_dims", Default::kNoInts},           {"collapsed_slice_dims", Default::kNoInts},
    {"operand_batching_dims", Default::kNoInts}, {"start_indices_batching_dims", Default::kNoInts},
    {"start_index_map", Default::kNoInts},       {"index_vector_dim", Default::kZero}};
constexpr FieldDef kScatter[] = {
    {"update_window_dims", Default::kNoInts},           {"inserted_window_dims", Default::kNoInts},
    {"input_batching_dims", Default::kNoInts},          {"scatter_indices_batching_dims", Default::kNoInts},
    {"scatter_dims_to_operand_dims", Default::kNoInts}, {"index_vector_dim", Default::kZero}};
constexpr FieldDef kConv[] = {
    {"input_batch_dimension", Default::kZero},           {"input_feature_dimension", Default::kZero},
    {"input_spatial_dimensions", Default::kNoInts},      {"kernel_input_feature_dimension", Default::kZero},
    {"kernel_output_feature_dimension", Default::kZero}, {"kernel_spatial_dimensions", Default::kNoInts},
    {"output_batch_dimension", Default::kZero},          {"output_feature_dimension", Default::kZero},
    {"output_spatial_dimensions", Default::kNoInts}};
constexpr FieldDef kChannel[] = {{"handle", Default::kZero}, {"type", Default::kZero}};
constexpr FieldDef kAlias[] = {{"output_tuple_indices", Default::kNoInts},
                               {"operand_index", Default::kZero},
                               {"operand_tuple_indices", Default::kNoInts}};
constexpr FieldDef kAlgorithm[] = {
    {"lhs_precision_type"},  {"rhs_precision_type"},       {"accumulation_type"},           {"lhs_component_count"},
    {"rhs_component_count"}, {"num_primitive_operations"}, {"allow_imprecise_accumulation"}};
constexpr FieldDef kAccuracy[] = {
    {"atol", Default::kZeroFloat}, {"rtol", Default::kZeroFloat}, {"ulps", Default::kZero}, {"mode"}};

struct KindDef {
  std::string_view kind;
  std::span<const FieldDef> fields;
};
constexpr KindDef kKinds[] = {
    {"dot", kDot},
    {"ragged_dot", kRaggedDot},
    {"gather", kGather},
    {"scatter", kScatter},
    {"conv", kConv},
    {"channel_handle", kChannel},
    {"output_operand_alias", kAlias},
    {"dot_algorithm", kAlgorithm},
    {"result_accuracy", kAccuracy},
};

}  // namespace

std::span<const FieldDef> fields_of(std::string_view kind) {
  const auto found = std::ranges::find(kKinds, kind, &KindDef::kind);
  return found == std::end(kKinds) ? std::span<const FieldDef>() : found->fields;
}

void complete(StructValue& structure) {
  const auto fields = fields_of(structure.kind);
  const auto place = [&](const Attributes::value_type& field) {
    return std::ranges::find(fields, field.first, &FieldDef::name) - fields.begin();
  };
  for (const FieldDef& field : fields) {
    if (field.missing == Default::kNone || find_attribute(structure.fields, field.name)) continue;
    Attribute value;
    if (field.missing == Default::kZero) value.value = int64_t{0};
    if (field.missing == Default::kNoInts) value.value = std::vector<int64_t>();
    if (field.missing == Default::kZeroFloat) value.value = 0.0;
    structure.fields.emplace_back(field.name, std::move(value));
  }
  std::ranges::stable_sort(structure.fields, {}, place);
}

}  // namespace fettle::stablehlo
