// Fused operators of ONNX Runtime (com.microsoft), as what they were fused from.

#include <fmt/format.h>

#include <algorithm>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

// --- activations

Values bias_gelu(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  return std::vector{g("Gelu", {g("Add", {node.inputs[0], node.inputs[1]})})};
}
Values fast_gelu(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  Value* x = node.input(1) ? g("Add", {node.inputs[0], node.inputs[1]}) : node.inputs[0];
  return std::vector{g("Gelu", {x}, {{{"approximate", std::string("tanh")}}})};
}
// x + bias + skip
Values bias_add(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  return std::vector{g("Add", {g("Add", {node.inputs[0], node.inputs[1]}), node.inputs[2]})};
}
// a * gelu(b), where x + bias is [a, b] along the last axis
Values bias_split_gelu(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  Value* x = g("Add", {node.inputs[0], node.inputs[1]});
  const Dim& columns = x->shape().back();
  if (!columns.is_number() || columns.value() % 2 != 0)
    return bad_types(node, fmt::format("{} columns are not known to be two halves", columns.to_string()));
  const int64_t axis = x->rank() - 1, half = columns.value() / 2;
  return std::vector{g("Mul", {g.slice(x, axis, 0, half), g("Gelu", {g.slice(x, axis, half, 2 * half)})})};
}
Values quick_gelu(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"alpha"}));
  return std::vector{g("Swish", {node.inputs[0]}, {{{"alpha", node.attrs.get_float("alpha", 1.702)}}})};
}

// The activation that an attribute names, with its parameters in order.
Result<Value*> activated(Lowering& g, const Node& node, Value* x, const std::vector<double>& params) {
  const std::string name = node.attrs.get_string("activation", "");
  struct Known {
    std::string_view name, first, second;  // the attributes of its parameters
  };
  constexpr Known known[] = {{"Relu", "", ""},       {"Tanh", "", ""},
                             {"Sigmoid", "", ""},    {"LeakyRelu", "alpha", ""},
                             {"Clip", "min", "max"}, {"HardSigmoid", "alpha", "beta"},
                             {"Elu", "alpha", ""},   {"ThresholdedRelu", "alpha", ""},
                             {"Softplus", "", ""},   {"Softsign", "", ""}};
  if (name.empty()) return x;
  const auto* found = std::ranges::find(known, name, &Known::name);
  if (found == std::end(known)) return bad_attribute(node, "the activation " + name + " is not supported");
  const size_t takes = !found->second.empty() ? 2 : !found->first.empty() ? 1 : 0;
  if (params.size() > takes)
    return bad_attribute(node,
                         fmt::format("{} parameters of the activation {}, which has {}", params.size(), name, takes));
  Attrs attrs;
  if (!found->first.empty() && !params.empty()) attrs.set(std::string(found->first), params[0]);
  if (!found->second.empty() && params.size() > 1) attrs.set(std::string(found->second), params[1]);
  return g(name, {x}, std::move(attrs));
}

// --- products

// alpha * A' · B'
Values fused_matmul(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"alpha", "transA", "transB", "transBatchA", "transBatchB"}));
  // A batch that is transposed has its first dim behind the others; a vector stays.
  const auto operand = [&](size_t i, const char* transposes, const char* transposes_batch) {
    Value* x = node.inputs[i];
    if (x->rank() > 2 && node.attrs.get_int(transposes_batch, 0) != 0) {
      std::vector<int64_t> perm = first_numbers(x->shape().size());
      std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
      x = g.transpose(x, std::move(perm));
    }
    return node.attrs.get_int(transposes, 0) != 0 && x->rank() > 1 ? swapped(g, x) : x;
  };
  Value* y = g("MatMul", {operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB")});
  if (node.attrs.get_float("alpha", 1) != 1) y = g("Mul", {y, g.attribute("alpha", 1, y->dtype())});
  return std::vector{y};
}

constexpr std::string_view kGemm[] = {"alpha", "beta", "transA", "transB"};
Values fused_gemm(Lowering& g, const Node& node) {
  std::vector<std::string_view> known(std::begin(kGemm), std::end(kGemm));
  std::vector<double> params;
  std::string_view missing;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    known.push_back(name);
    if (!node.attrs.has(name))
      missing = missing.empty() ? name : missing;
    else if (!missing.empty())
      return bad_attribute(node, fmt::format("{} without {}", name, missing));
    else
      params.push_back(node.attrs.get_float(name, 0));
  }
  known.push_back("activation");
  FETTLE_TRY_VOID(check_attributes(node, known));
  Value* y = g("Gemm", {node.inputs[0], node.inputs[1], node.input(2)}, picked(node, kGemm));
  FETTLE_TRY(y, activated(g, node, y, params));
  return std::vector{y};
}

// (X, W, B, Z): activation(X * W + B + Z)
constexpr std::string_view kConv[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
Values fused_conv(Lowering& g, const Node& node) {
  std::vector<std::string_view> known(std::begin(kConv), std::end(kConv));
  known.insert(known.end(), {"activation", "activation_params"});
  FETTLE_TRY_VOID(check_attributes(node, known));
  std::vector<double> params;
  if (const AttrValue* given = node.attrs.find("activation_params"))
    if (const auto* list = std::get_if<std::vector<double>>(given)) params = *list;
  Value* y = g("Conv", {node.inputs[0], node.inputs[1], node.input(2)}, picked(node, kConv));
  if (node.input(3)) y = g("Add", {y, node.inputs[3]});
  FETTLE_TRY(y, activated(g, node, y, params));
  return std::vector{y};
}

// Of images and weights whose channels are last.
Values nhwc_conv(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, kConv));
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  std::vector<int64_t> to_front = first_numbers(shape_of(node, 0).size()), to_back = to_front;
  std::rotate(to_front.begin() + 1, to_front.end() - 1, to_front.end());
  std::rotate(to_back.begin() + 1, to_back.begin() + 2, to_back.end());
  Value *x = g.transpose(node.inputs[0], to_front), *w = g.transpose(node.inputs[1], to_front);
  return std::vector{g.transpose(g("Conv", {x, w, node.input(2)}, picked(node, kConv)), to_back)};
}

// --- normalisation of sums: (output, mean, reciprocal deviation, sum)

Value* sum_of(Lowering& g, const Node& node, size_t bias) {
  Value* sum = g("Add", {node.inputs[0], node.inputs[1]});
  return node.input(bias) ? g("Add", {sum, node.inputs[bias]}) : sum;
}

// (input, skip, gamma, beta, bias)
Values skip_layer_norm(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"epsilon"}));
  Value* sum = sum_of(g, node, 4);
  const Attrs attrs{{{"axis", int64_t{-1}}, {"epsilon", node.attrs.get_float("epsilon", 1e-12)}}};
  std::vector<Value*> made =
      g.many("LayerNormalization", {sum, node.inputs[2], node.input(3)}, attrs, node.outputs.size() > 1 ? 3 : 1);
  made.resize(3);
  made.push_back(sum);
  return made;
}

// x / sqrt(mean(x²) + epsilon), over the dims from `axis` on
Value* inverse_root_mean_square(Lowering& g, Value* x, int64_t axis, double epsilon) {
  std::vector<int64_t> axes = first_numbers(x->shape().size());
  axes.erase(axes.begin(), axes.begin() + axis);
  Value* wide = g.cast(x, computed_dtype(x->dtype()));
  Value* mean = g.reduce("ReduceMeanSquare", wide, std::move(axes), true);
  return g("Reciprocal", {g("Sqrt", {g("Add", {mean, g.number(epsilon, wide->dtype())})})});
}

// (input, skip, gamma, bias)
Values skip_simplified_layer_norm(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"epsilon"}));
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  const double epsilon = node.attrs.get_float("epsilon", 1e-12);
  Value* sum = sum_of(g, node, 3);
  const Attrs attrs{{{"axis", int64_t{-1}}, {"epsilon", epsilon}}};
  Value* y = g("RMSNormalization", {sum, node.inputs[2]}, attrs);
  Value* deviation =
      node.outputs.size() > 2 ? inverse_root_mean_square(g, sum, rank_of(node, 0) - 1, epsilon) : nullptr;
  return std::vector{y, static_cast<Value*>(nullptr), deviation, sum};
}

// (x, scale) → (y, reciprocal deviation). ONNX Runtime has it in ONNX's own domain.
Values simplified_layer_norm(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"axis", "epsilon", "stash_type"}));
  FETTLE_TRY(const int64_t axis, axis_of(node, -1));
  const double epsilon = node.attrs.get_float("epsilon", 1e-5);
  const Attrs attrs{{{"axis", axis}, {"epsilon", epsilon}}};
  Value* y = g("RMSNormalization", {node.inputs[0], node.inputs[1]}, attrs);
  Value* deviation = node.outputs.size() > 1 ? inverse_root_mean_square(g, node.inputs[0], axis, epsilon) : nullptr;
  return std::vector{y, deviation};
}

// (words, segments, word table, position table, segment table, gamma, beta, mask, positions)
//   → (output, how many words the mask keeps, sum)
Values embed_layer_norm(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"epsilon", "mask_index_type"}));
  FETTLE_TRY_VOID(check_given(node, {2, 3, 5, 6}));
  if (!node.input(1) != !node.input(4)) return bad_attribute(node, "of segments and their table one is missing");
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  FETTLE_TRY_VOID(check_rank(node, 3, 2, 2));
  Value* sum = g("Gather", {node.inputs[2], node.inputs[0]});
  Value* positions = node.inputs[3];
  if (node.input(8)) {
    positions = g("Gather", {positions, node.inputs[8]});
  } else {  // the first ones
    Attrs attrs;
    attrs.set("starts", std::vector<int64_t>{0});
    attrs.set("ends", dims_attr({shape_of(node, 0)[1]}));
    attrs.set("axes", std::vector<int64_t>{0});
    positions = g("Slice", {positions}, std::move(attrs));
  }
  sum = g("Add", {sum, positions});
  if (node.input(1)) sum = g("Add", {sum, g("Gather", {node.inputs[4], node.inputs[1]})});
  const Attrs attrs{{{"axis", int64_t{-1}}, {"epsilon", node.attrs.get_float("epsilon", 1e-12)}}};
  Value* y = g("LayerNormalization", {sum, node.inputs[5], node.inputs[6]}, attrs);
  Value* kept = nullptr;
  if (node.input(7)) {
    kept =
        g.reduce("ReduceSum", g.cast(g("Equal", {node.inputs[7], g.number(1, dtype_of(node, 7))}), kI32), {1}, false);
  } else if (node.outputs.size() > 1) {
    kept = g("ConstantOfShape", {},
             {{{"shape", dims_attr({shape_of(node, 0)[0]})}, {"value", filled(0, kI32, {1}).value()}}});
  }
  return std::vector{y, kept, sum};
}

constexpr OpDef ort_fused_defs[] = {
    composite<bias_gelu>("com.microsoft.BiasGelu", 2),
    composite<fast_gelu>("com.microsoft.FastGelu", {1, 2}),
    composite<quick_gelu>("com.microsoft.QuickGelu", 1),
    composite<fused_matmul>("com.microsoft.FusedMatMul", 2),
    composite<fused_gemm>("com.microsoft.FusedGemm", {2, 3}),
    composite<bias_add>("com.microsoft.BiasAdd", 3),
    composite<bias_split_gelu>("com.microsoft.BiasSplitGelu", 2),
    composite<nhwc_conv>("com.microsoft.NhwcConv", {2, 3}),
    composite<fused_conv>("com.microsoft.FusedConv", {2, 4}),
    composite<skip_layer_norm>("com.microsoft.SkipLayerNormalization", {3, 5}, 4),
    composite<skip_simplified_layer_norm>("com.microsoft.SkipSimplifiedLayerNormalization", {3, 4}, 4),
    composite<simplified_layer_norm>("SimplifiedLayerNormalization", 2, 2),
    composite<embed_layer_norm>("com.microsoft.EmbedLayerNormalization", {1, 9}, 3),
};

}  // namespace

extern constinit const OpFamily ort_fused_ops{"ort_fused", ort_fused_defs};

}  // namespace fettle
