// Preprocessing of ai.onnx.ml: scaling, imputing, and what becomes of categories.

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "graph/ops/scores.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

Result<> check_numbers(const Node& node, size_t input = 0) {
  const DType dtype = dtype_of(node, input);
  if (dtype.is_float() || dtype == kI32 || dtype == kI64) return {};
  return bad_types(node, fmt::format("its input is of {}", dtype.to_string()));
}

// A list with an element for each feature, which is the last dim of [n, features] or of [features]; or with one.
Result<> check_features(const Node& node, std::string_view name, size_t length) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  if (length == 1) return {};
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  const Dim& features = shape_of(node, 0).back();
  return common_dim(node, features, static_cast<int64_t>(length), fmt::format("features and elements of {}", name))
      .map([](const Dim&) {});
}

// --- Binarizer: 1 where x is above the threshold, else 0

Values binarizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"threshold"}));
  FETTLE_TRY_VOID(check_numbers(node));
  const DType dtype = dtype_of(node, 0);
  // A whole number is above it where it is above the next whole number below.
  const double threshold = node.attrs.get_float("threshold", 0);
  Value* limit = g.number(dtype.is_int() ? std::floor(threshold) : threshold, dtype);
  return std::vector{g.cast(g("Greater", {node.inputs[0], limit}), dtype)};
}

// --- ArrayFeatureExtractor(x, indices): x[…, indices]; a list gives one row

Values feature_extractor(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  Value* indices = g.reshape(node.inputs[1], {element_count(shape_of(node, 1))});
  Value* y = g("Gather", {node.inputs[0], indices}, {{{"axis", int64_t{-1}}}});
  return std::vector{rank_of(node, 0) == 1 ? g.unsqueeze(y, {0}) : y};
}

// --- Scaler: (x - offset) * scale

Values scaler(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"offset", "scale"}));
  FETTLE_TRY_VOID(check_numbers(node));
  FETTLE_TRY(const std::vector<double> offset, number_list(node, "offset"));
  FETTLE_TRY(const std::vector<double> scale, number_list(node, "scale"));
  if (scale.empty() || scale.size() != offset.size())
    return bad_attribute(node, fmt::format("scale has {} elements, offset {}", scale.size(), offset.size()));
  FETTLE_TRY_VOID(check_features(node, "scale", scale.size()));
  const DType dtype = dtype_of(node, 0) == kF64 ? kF64 : kF32;
  const auto row = [&](const std::vector<double>& list) {
    return g.constant(to_tensor(list, dtype, {std::ssize(list)}).value());
  };
  Value* y = g("Mul", {g("Sub", {g.cast(node.inputs[0], dtype), row(offset)}), row(scale)});
  return std::vector{g.cast(y, kF32)};
}

// --- Normalizer: rows divided by their norm. Those whose norm is 0 stay.

Values normalizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"norm"}));
  FETTLE_TRY_VOID(check_numbers(node));
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  const std::string norm = node.attrs.get_string("norm", "MAX");
  Value* x = g.cast(node.inputs[0], kF32);
  const std::vector<int64_t> row{rank_of(node, 0) - 1};
  Value* length = nullptr;
  if (norm == "MAX") length = g.reduce("ReduceMax", x, row, true);
  if (norm == "L1") length = g.reduce("ReduceL1", x, row, true);
  if (norm == "L2") length = g.reduce("ReduceL2", x, row, true);
  if (!length) return bad_attribute(node, fmt::format("norm is \"{}\"", norm));
  Value* is_zero = g("Equal", {length, g.number(0, kF32)});
  return std::vector{g("Div", {x, g("Where", {is_zero, g.number(1, kF32), length})})};
}

// --- Imputer: another value for one that says that something is missing

Values imputer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(
      node, {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"}));
  FETTLE_TRY_VOID(check_numbers(node));
  Value* x = node.inputs[0];
  const bool is_int = x->dtype().is_int();
  const char* name = is_int ? "imputed_value_int64s" : "imputed_value_floats";
  const char* other = is_int ? "imputed_value_floats" : "imputed_value_int64s";
  if (node.attrs.has(other))
    return bad_attribute(node, fmt::format("{} is given, and x is of {}", other, x->dtype().to_string()));
  ConstantTensor values;
  if (is_int) {
    values = int_list(node.attrs.get_ints(name));
  } else {
    FETTLE_TRY(const std::vector<double> list, number_list(node, name));
    values = to_tensor(list, x->dtype(), {std::ssize(list)}).value();
  }
  if (values.n_elems() == 0)
    return bad_attribute(node, fmt::format("{} is empty, and x is of {}", name, x->dtype().to_string()));
  FETTLE_TRY_VOID(check_features(node, name, static_cast<size_t>(values.n_elems())));
  Value* is_missing = nullptr;
  if (is_int) {
    Value* replaced = g.ints({node.attrs.get_int("replaced_value_int64", 0)});
    is_missing = g("Equal", {g.cast(x, kI64), g.reshape(replaced, {})});
  } else {
    const double replaced = node.attrs.get_float("replaced_value_float", 0);
    is_missing = std::isnan(replaced) ? g("IsNaN", {x}) : g("Equal", {x, g.number(replaced, x->dtype())});
  }
  return std::vector{g("Where", {is_missing, g.cast(g.constant(std::move(values)), x->dtype()), x})};
}

// --- FeatureVectorizer: columns of several tensors side by side

Values feature_vectorizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"inputdimensions"}));
  const auto widths = node.attrs.get_ints("inputdimensions");
  if (widths.size() != node.inputs.size())
    return bad_attribute(node, fmt::format("inputdimensions has {} elements, and there are {} inputs", widths.size(),
                                           node.inputs.size()));
  std::vector<Value*> parts;
  for (size_t i = 0; i < widths.size(); ++i) {
    FETTLE_TRY_VOID(check_given(node, {i}));
    FETTLE_TRY_VOID(check_numbers(node, i));
    FETTLE_TRY_VOID(check_rank(node, i, 1));
    const Shape& shape = shape_of(node, i);
    Shape rows{1, shape[0]};
    if (shape.size() > 1) rows = {shape[0], element_count(Shape(shape.begin() + 1, shape.end()))};
    if (!rows[1].is_number())
      return not_known(node, "FeatureVectorizer needs the number of features when the model is compiled");
    const int64_t width = widths[i], given = rows[1].value();
    if (width < 0 || width > kMaxDim)
      return bad_attribute(node, fmt::format("inputdimensions has the element {}", width));
    FETTLE_TRY_VOID(
        common_dim(node, parts.empty() ? rows[0] : parts.front()->shape()[0], rows[0], "rows of the inputs"));
    // What is too many is left out, and what lacks is 0.
    Value* part = g.slice(g.cast(g.reshape(node.inputs[i], rows), kF32), 1, 0, std::min(width, given));
    if (width > given) part = g("Pad", {part}, {{{"pads", std::vector<int64_t>{0, 0, 0, width - given}}}});
    parts.push_back(part);
  }
  return std::vector{parts.size() == 1 ? parts[0] : g("Concat", parts, {{{"axis", int64_t{1}}}})};
}

// --- OneHotEncoder: a last dim of categories, with 1 at that of each element

Values one_hot_encoder(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"cats_int64s", "cats_strings", "zeros"}));
  const bool is_string = dtype_of(node, 0).is_string();
  if (!is_string) FETTLE_TRY_VOID(check_numbers(node));
  const char *name = is_string ? "cats_strings" : "cats_int64s", *other = is_string ? "cats_int64s" : "cats_strings";
  if (node.attrs.has(other))
    return bad_attribute(node, fmt::format("{} is given, and x is of {}", other, dtype_of(node, 0).to_string()));
  ConstantTensor categories = int_list(node.attrs.get_ints("cats_int64s"));
  if (is_string) {
    const std::vector<std::string> texts = string_list(node, "cats_strings");
    FETTLE_TRY(categories, string_tensor(texts, {std::ssize(texts)}));
  }
  if (categories.n_elems() == 0) return bad_attribute(node, fmt::format("{} is empty", name));
  const auto numbers = categories.elems<int64_t>();  // of equal strings, those are equal
  if (std::set(numbers.begin(), numbers.end()).size() != numbers.size())
    return bad_attribute(node, fmt::format("{} has an element twice", name));
  const int64_t last = rank_of(node, 0);
  Value* x = is_string ? node.inputs[0] : g.cast(node.inputs[0], kI64);
  Value* y = g("Equal", {g.unsqueeze(x, {last}), g.constant(std::move(categories))});
  y = g.cast(y, kF32);
  if (node.attrs.get_int("zeros", 1) == 0) {
    Value* known = g.reduce("ReduceMax", y, {last}, false);
    g.require_all(g("Greater", {known, g.number(0, kF32)}), "an element is none of the categories, and zeros is 0");
  }
  return std::vector{y};
}

constexpr OpDef ml_preprocessing_defs[] = {
    composite<binarizer>("ai.onnx.ml.Binarizer", 1),
    composite<feature_extractor>("ai.onnx.ml.ArrayFeatureExtractor", 2),
    composite<scaler>("ai.onnx.ml.Scaler", 1),
    composite<normalizer>("ai.onnx.ml.Normalizer", 1),
    composite<imputer>("ai.onnx.ml.Imputer", 1),
    composite<one_hot_encoder>("ai.onnx.ml.OneHotEncoder", 1),
    composite<feature_vectorizer>("ai.onnx.ml.FeatureVectorizer", {1, kAny}),
};

}  // namespace

extern constinit const OpFamily ml_preprocessing_ops{"ml_preprocessing", ml_preprocessing_defs};

}  // namespace fettle
