// What operators of ONNX's first opsets do that later ones do not: aligned broadcasting, Tile along one axis,
// BatchNormalization of activations, and operators that were experiments.

#include <fmt/format.h>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

// AlignedTo(y, x) {axis}: y with dims of one element behind its own, so that these lie below x's from `axis` on. A y of
// one element stays. Of Fettle's own.
Values aligned(Lowering& g, const Node& node) {
  const int64_t rank = rank_of(node, 0), whole = rank_of(node, 1);
  if (element_count(shape_of(node, 0)) == Dim(1)) return std::vector{g.reshape(node.inputs[0], {})};
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", 0), whole));
  if (axis + rank > whole) return bad_types(node, fmt::format("{} dims from axis {} on, of {}", rank, axis, whole));
  std::vector<int64_t> behind;
  for (int64_t d = rank; d < whole - axis; ++d) behind.push_back(d);
  return std::vector{behind.empty() ? node.inputs[0] : g.unsqueeze(node.inputs[0], behind)};
}

// (x, how often, along which axis)
Values tile_along_axis(Lowering& g, const Node& node) {
  FETTLE_TRY(const auto tiles, int_param(node, 1, "tiles"));
  FETTLE_TRY(const auto stated, int_param(node, 2, "axis"));
  if (!tiles || !stated) return bad_attribute(node, "tiles and axis must be known");
  FETTLE_TRY(const int64_t axis, positive_axis(node, *stated, rank_of(node, 0)));
  std::vector<int64_t> repeats(shape_of(node, 0).size(), 1);
  repeats[static_cast<size_t>(axis)] = *tiles;
  return std::vector{g("Tile", {node.inputs[0]}, {{{"repeats", repeats}}})};
}

// (x, scale, bias, mean, variance), of which all but x have x's shape without the batch. Of Fettle's own.
Values normalization_of_activations(Lowering& g, const Node& node) {
  const DType dtype = dtype_of(node, 0);
  Value* variance = g("Add", {node.inputs[4], g.attribute("epsilon", 1e-5, dtype)});
  Value* distance = g("Sub", {node.inputs[0], node.inputs[3]});
  Value* scale = g("Div", {node.inputs[1], g("Sqrt", {variance})});
  return std::vector{g("Add", {g("Mul", {distance, scale}), node.inputs[2]})};
}

// alpha * f(beta * x), and alpha * x + beta
Values affine(Lowering& g, const Node& node) {
  const DType dtype = dtype_of(node, 0);
  Value* scaled = g("Mul", {node.inputs[0], g.attribute("alpha", 1, dtype)});
  return std::vector{g("Add", {scaled, g.attribute("beta", 0, dtype)})};
}
template <Text Function>
Values scaled_function(Lowering& g, const Node& node) {
  const DType dtype = dtype_of(node, 0);
  Value* inner = g(Function.chars, {g("Mul", {node.inputs[0], g.attribute("beta", 1, dtype)})});
  return std::vector{g("Mul", {inner, g.attribute("alpha", 1, dtype)})};
}

// scale * x + bias[channel], of images
Values image_scaler(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 4, 4));
  const DType dtype = dtype_of(node, 0);
  Value* x = g("Mul", {node.inputs[0], g.attribute("scale", 1, dtype)});
  const AttrValue* bias = node.attrs.find("bias");
  const auto* numbers = bias ? std::get_if<std::vector<double>>(bias) : nullptr;
  if (!numbers) return bad_attribute(node, "no bias is given");
  FETTLE_TRY(ConstantTensor list, to_tensor(*numbers, dtype, {std::ssize(*numbers), 1, 1}));
  return std::vector{g("Add", {x, g.constant(std::move(list))})};
}

// Images without a border: {left, top, right, bottom}; with a scale, {height, width} of what begins behind it.
Values crop(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 4, 4));
  const auto border = node.attrs.get_ints("border"), scale = node.attrs.get_ints("scale");
  if (border.size() != 4 || (!scale.empty() && scale.size() != 2)) return bad_attribute(node, "border or scale");
  Value* x = node.inputs[0];
  for (const int d : {0, 1}) {
    const auto axis = static_cast<size_t>(2 + d);
    const int64_t first = border[static_cast<size_t>(1 - d)], last = border[static_cast<size_t>(3 - d)];
    const Dim& extent = shape_of(node, 0)[axis];
    const Dim end = scale.empty() ? extent - last : Dim(first + scale[static_cast<size_t>(d)]);
    if (first < 0 || last < 0 || (end - first).max() < 0 || (extent - end).max() < 0)
      return bad_attribute(node, "the border is beyond the image");
    note_not_negative(node, end - first, "what is within the border");
    note_not_negative(node, extent - end, "the image beyond what is cropped");
    Attrs attrs{{{"starts", std::vector<int64_t>{first}}, {"axes", std::vector<int64_t>{2 + d}}}};
    attrs.set("ends", dims_attr({end}));
    x = g("Slice", {x}, std::move(attrs));
  }
  return std::vector{x};
}

constexpr ParamInput tile_params[] = {{1, "tiles", kInt}, {2, "axis", kInt}};
constexpr OpDef early_defs[] = {
    composite<aligned>("AlignedTo", 2),
    composite<tile_along_axis>("TileAlongAxis", 3, 1, tile_params),
    composite<normalization_of_activations>("BatchNormalizationOfActivations", 5),
    composite<affine>("Affine", 1),
    composite<scaled_function<"Softplus">>("ParametricSoftplus", 1),
    composite<scaled_function<"Tanh">>("ScaledTanh", 1),
    composite<image_scaler>("ImageScaler", 1),
    composite<crop>("Crop", 1),
};

}  // namespace

extern constinit const OpFamily early_ops{"early", early_defs};

}  // namespace fettle
