#include "frontend/stablehlo/vhlo.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "frontend/stablehlo/defaults.h"
#include "frontend/stablehlo/structures.h"

namespace fettle::stablehlo {
namespace {

struct VhloOp {
  std::string_view name, attributes;
};

// Operators without attributes.
constexpr std::string_view kPlain =
    "abs_v1 add_v1 after_all_v1 and_v1 async_done_v1 async_start_v1 atan2_v1 bitcast_convert_v1 case_v1 cbrt_v1 "
    "ceil_v1 clamp_v1 complex_v1 convert_v1 cosine_v1 count_leading_zeros_v1 create_token_v1 divide_v1 "
    "dynamic_pad_v1 dynamic_reshape_v1 dynamic_update_slice_v1 exponential_minus_one_v1 exponential_v1 floor_v1 "
    "if_v1 imag_v1 is_finite_v1 log_plus_one_v1 log_v1 logistic_v1 maximum_v1 minimum_v1 multiply_v1 negate_v1 "
    "not_v1 optimization_barrier_v1 or_v1 partition_id_v1 popcnt_v1 power_v1 real_dynamic_slice_v1 real_v1 "
    "remainder_v1 replica_id_v1 reshape_v1 return_v1 round_nearest_afz_v1 round_nearest_even_v1 rsqrt_v1 "
    "select_v1 shift_left_v1 shift_right_arithmetic_v1 shift_right_logical_v1 sign_v1 sine_v1 sqrt_v1 subtract_v1 "
    "tan_v1 tanh_v1 tuple_v1 uniform_dequantize_v1 uniform_quantize_v1 while_v1 xor_v1";

constexpr VhloOp kOps[] = {
    {"all_gather_v1", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"all_gather_v2", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"all_reduce_v1", "channel_id replica_groups use_global_device_ids"},
    {"all_reduce_v2", "channel_id replica_groups use_global_device_ids"},
    {"all_to_all_v1", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"all_to_all_v2", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"batch_norm_grad_v1", "epsilon feature_index"},
    {"batch_norm_inference_v1", "epsilon feature_index"},
    {"batch_norm_training_v1", "epsilon feature_index"},
    {"broadcast_in_dim_v1", "broadcast_dimensions"},
    {"broadcast_v1", "broadcast_sizes"},
    {"call_v1", "callee"},
    {"cbrt_v2", "result_accuracy"},
    {"cholesky_v1", "lower"},
    {"cross-replica-sum_v1", "replica_groups"},
    {"collective_broadcast_v1", "channel_id replica_groups"},
    {"collective_broadcast_v2", "channel_id has_dynamic_root replica_groups"},
    {"collective_permute_v1", "channel_id source_target_pairs"},
    {"collective_reduce_v1", "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"compare_v1", "compare_type comparison_direction"},
    {"composite_v1", "composite_attributes decomposition name version"},
    {"composite_v2", "composite_attributes decomposition name version"},
    {"concatenate_v1", "dimension"},
    {"constant_v1", "value"},
    {"convolution_v1",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides"},
    {"cosine_v2", "result_accuracy"},
    {"custom_call_v1",
     "api_version backend_config call_target_name called_computations has_side_effect operand_layouts "
     "output_operand_aliases result_layouts"},
    {"custom_call_v2",
     "api_version backend_config call_target_name called_computations has_side_effect operand_layouts "
     "output_operand_aliases result_layouts result_tilings"},
    {"dot_general_v1",
     "lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions "
     "rhs_contracting_dimensions"},
    {"dot_general_v2",
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
     "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config "
     "rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"dot_v1", "precision_config"},
    {"dynamic_broadcast_in_dim_v1", "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"dynamic_conv_v1",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides"},
    {"dynamic_conv_v2",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions precision_config rhs_dilation window_reversal window_strides"},
    {"dynamic_gather_v1", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map"},
    {"dynamic_gather_v2",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims "
     "start_index_map start_indices_batching_dims"},
    {"dynamic_iota_v1", "iota_dimension"},
    {"dynamic_slice_v1", "slice_sizes"},
    {"einsum_v1", "einsum_config"},
    {"exponential_minus_one_v2", "result_accuracy"},
    {"exponential_v2", "result_accuracy"},
    {"fft_v1", "fft_length fft_type"},
    {"func_v1", "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"gather_v1", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map"},
    {"gather_v2",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims slice_sizes "
     "start_index_map start_indices_batching_dims"},
    {"get_dimension_size_v1", "dimension"},
    {"get_tuple_element_v1", "index"},
    {"infeed_v1", "infeed_config layout"},
    {"iota_v1", "iota_dimension"},
    {"log_plus_one_v2", "result_accuracy"},
    {"log_v2", "result_accuracy"},
    {"logistic_v2", "result_accuracy"},
    {"map_v1", "dimensions"},
    {"outfeed_v1", "outfeed_config"},
    {"pad_v1", "edge_padding_high edge_padding_low interior_padding"},
    {"recv_v1", "channel_id channel_type is_host_transfer"},
    {"recv_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"reduce_scatter_v1", "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"reduce_v1", "dimensions"},
    {"reduce_window_v1", "base_dilations padding window_dilations window_dimensions window_strides"},
    {"reverse_v1", "dimensions"},
    {"rng_bit_generator_v1", "rng_algorithm"},
    {"rng_v1", "rng_distribution"},
    {"rsqrt_v2", "result_accuracy"},
    {"scatter_v1",
     "index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims unique_indices "
     "update_window_dims"},
    {"scatter_v2",
     "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims scatter_dims_to_operand_dims "
     "scatter_indices_batching_dims unique_indices update_window_dims"},
    {"select_and_scatter_v1", "padding window_dimensions window_strides"},
    {"send_v1", "channel_id channel_type is_host_transfer"},
    {"send_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"set_dimension_size_v1", "dimension"},
    {"sine_v2", "result_accuracy"},
    {"slice_v1", "limit_indices start_indices strides"},
    {"sort_v1", "dimension is_stable"},
    {"sqrt_v2", "result_accuracy"},
    {"tan_v2", "result_accuracy"},
    {"tanh_v2", "result_accuracy"},
    {"torch_index_select_v1", "batch_dims dim"},
    {"transpose_v1", "permutation"},
    {"triangular_solve_v1", "left_side lower transpose_a unit_diagonal"},
    {"unary_einsum_v1", "einsum_config"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

// Attributes that are tensors of one dim in VHLO, and arrays today.
constexpr std::string_view kArrays =
    "fft_length broadcast_sizes slice_sizes dimensions permutation edge_padding_low edge_padding_high "
    "interior_padding start_indices limit_indices strides broadcast_dimensions known_expanding_dimensions "
    "known_nonexpanding_dimensions window_dimensions window_strides base_dilations window_dilations lhs_dilation "
    "rhs_dilation window_reversal";

Attribute of(auto value) {
  Attribute attribute;
  attribute.value = std::move(value);
  return attribute;
}

Attribute array_of(const DenseElements& elements) {
  const int64_t count = elements.type.shape.empty() ? 1 : elements.type.shape[0];
  const auto at = [&](int64_t i) { return elements.data.int_at(elements.is_splat ? 0 : i); };
  if (elements.data.dtype.is_bool()) {
    std::vector<bool> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(at(i) != 0);
    return of(std::move(values));
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(at(i));
  return of(std::move(values));
}

bool is_array(const Attribute& attribute) {
  const auto* elements = attribute.get_if<DenseElements>();
  return elements && elements->type.shape.size() == 1 && elements->data.dtype.bits <= 64 &&
         (elements->data.dtype.is_int() || elements->data.dtype.is_bool());
}

// What an attribute says where it says nothing: it is left out then, as StableHLO leaves it out.
bool says(const Attribute& attribute, std::string_view what) {
  if (what == "false") return attribute.get_if<bool>() && !*attribute.get_if<bool>();
  if (what == "0") return attribute.get_if<int64_t>() && *attribute.get_if<int64_t>() == 0;
  if (what == "empty") {
    if (const auto* list = attribute.get_if<std::vector<Attribute>>()) return list->empty();
    if (const auto* entries = attribute.get_if<Attributes>()) return entries->empty();
    if (const auto* text = attribute.get_if<std::string>()) return text->empty();
    const auto* elements = attribute.get_if<DenseElements>();
    return elements && elements->data.size_bytes == 0;
  }
  if (what == "zeros" || what == "ones") {
    const auto* elements = attribute.get_if<DenseElements>();
    return elements && elements->is_splat && elements->data.int_at(0) == (what == "ones");
  }
  if (what == "defaults") {
    const auto* list = attribute.get_if<std::vector<Attribute>>();
    return list && std::ranges::all_of(*list, [](const Attribute& item) {
             const auto* value = item.get_if<EnumValue>();
             return value && value->value == "DEFAULT";
           });
  }
  const auto* value = attribute.get_if<EnumValue>();
  return value && value->value == what;
}

struct OmissionDef {
  std::string_view ops, attributes, what;
};
constexpr std::string_view kCollectives =
    "all_gather all_reduce reduce_scatter all_to_all collective_permute collective_broadcast collective_reduce";
constexpr OmissionDef kOmissions[] = {
    {kCollectives, "channel_id", "0"},
    {kCollectives, "use_global_device_ids has_dynamic_root", "false"},
    {"compare", "compare_type", "NOTYPE"},
    {"convolution dynamic_conv reduce_window select_and_scatter",
     "window_strides lhs_dilation rhs_dilation base_dilations window_dilations", "ones"},
    {"convolution dynamic_conv reduce_window select_and_scatter", "padding window_reversal", "zeros"},
    {"convolution dynamic_conv dot_general dot", "precision_config", "defaults"},
    {"custom_call", "backend_config result_tilings", "empty"},
    {"dynamic_broadcast_in_dim", "known_expanding_dimensions known_nonexpanding_dimensions", "empty"},
    {"infeed", "layout", "empty"},
    {"send recv", "source_target_pairs", "empty"},
};

// Attributes that are fields of a structure today.
struct StructureDef {
  std::string_view ops, attribute, kind;
};
constexpr StructureDef kStructures[] = {
    {"convolution dynamic_conv", "dimension_numbers", "conv"},
    {"dot_general", "dot_dimension_numbers", "dot"},
    {"dot_general", "algorithm", "dot_algorithm"},
    {"gather dynamic_gather", "dimension_numbers", "gather"},
    {"scatter", "scatter_dimension_numbers", "scatter"},
};

bool is_none(const Attribute& attribute) {
  const Type* type = attribute.get_if<Type>();
  return type && type->kind == Type::Kind::kNone;
}

std::optional<Attribute> take(Attributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attributes::value_type::first);
  if (found == attributes.end()) return std::nullopt;
  Attribute value = std::move(found->second);
  attributes.erase(found);
  return value;
}

Result<> gather_fields(Op& op, std::string_view name) {
  for (const StructureDef& def : kStructures) {
    if (!has_word(def.ops, name)) continue;
    StructValue structure;
    structure.kind = def.kind;
    bool is_left_out = false;
    for (const FieldDef& field : fields_of(def.kind)) {
      auto value = take(op.attributes, field.name);
      if (!value || is_none(*value)) {
        is_left_out |= field.missing == FieldDef::Default::kNone;
        continue;
      }
      const auto* elements = value->get_if<DenseElements>();
      if (elements && !is_array(*value))
        return fail(ErrorCode::E602, fmt::format("attribute {} of {} is no list of integers", field.name, op.name));
      structure.fields.emplace_back(field.name, elements ? array_of(*elements) : std::move(*value));
    }
    if (is_left_out) continue;
    complete(structure);
    op.attributes.emplace_back(def.attribute, of(std::move(structure)));
  }
  return {};
}

void to_symbols(Attribute& attribute) {
  if (const auto* text = attribute.get_if<std::string>()) {
    attribute = of(SymbolRef{*text});
  } else if (attribute.get_if<std::vector<Attribute>>()) {
    for (Attribute& item : std::get<std::vector<Attribute>>(attribute.value)) to_symbols(item);
  }
}

void rename_channel(Op& op, std::string_view name) {
  if (!has_word(kCollectives, name) && name != "send" && name != "recv") return;
  const auto id = take(op.attributes, "channel_id");
  const auto type = take(op.attributes, "channel_type");
  if (!id) return;
  StructValue handle;
  handle.kind = "channel_handle";
  handle.fields.emplace_back("handle", *id);
  if (type) handle.fields.emplace_back("type", *type);
  complete(handle);
  op.attributes.emplace_back("channel_handle", of(std::move(handle)));
}

}  // namespace

std::optional<std::string_view> vhlo_attributes(std::string_view op) {
  const auto found = std::ranges::find(kOps, op, &VhloOp::name);
  if (found != std::end(kOps)) return found->attributes;
  if (has_word(kPlain, op)) return std::string_view();
  return std::nullopt;
}

std::set<std::string, std::less<>> vhlo_operators() {
  std::set<std::string, std::less<>> names;
  const auto add = [&](std::string_view versioned) { names.emplace(versioned.substr(0, versioned.rfind("_v"))); };
  for (const VhloOp& op : kOps) add(op.name);
  for (size_t at = 0; at < kPlain.size();) {
    const size_t end = std::min(kPlain.find(' ', at), kPlain.size());
    add(kPlain.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

Result<> from_vhlo(Op& op, bool in_function) {
  std::string_view versioned = op.name;
  versioned.remove_prefix(std::string_view("vhlo.").size());
  const std::string name(versioned.substr(0, versioned.rfind("_v")));
  if (versioned == "dynamic_conv_v1") take(op.attributes, "padding");  // d_padding says it
  for (const OmissionDef& def : kOmissions) {
    if (!has_word(def.ops, name)) continue;
    std::erase_if(op.attributes, [&](const Attributes::value_type& attribute) {
      return has_word(def.attributes, attribute.first) && says(attribute.second, def.what);
    });
  }
  if (name == "custom_call") {
    const Attribute* operands = find_attribute(op.attributes, "operand_layouts");
    const Attribute* results = find_attribute(op.attributes, "result_layouts");
    if (operands && results && says(*operands, "empty") && says(*results, "empty")) {
      take(op.attributes, "operand_layouts");
      take(op.attributes, "result_layouts");
    }
  }
  FETTLE_TRY_VOID(gather_fields(op, name));
  rename_channel(op, name);
  for (auto& [key, value] : op.attributes) {
    if (has_word(kArrays, key) && is_array(value)) value = array_of(std::get<DenseElements>(value.value));
    if (has_word("use_global_device_ids has_dynamic_root", key)) value = of(UnitValue());
    if ((name == "call" && key == "callee") || (name == "composite" && key == "decomposition") ||
        (name == "custom_call" && key == "called_computations"))
      to_symbols(value);
  }
  const bool is_func = name == "func" || name == "call" || (name == "return" && in_function);
  op.name = (is_func ? "func." : "stablehlo.") + name;
  std::ranges::stable_sort(op.attributes, {}, &Attributes::value_type::first);
  complete(op);
  return {};
}

}  // namespace fettle::stablehlo
