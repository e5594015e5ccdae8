// LabelEncoder, CategoryMapper: another value for each key.

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <type_traits>

#include "graph/ops/scores.h"
#include "graph/passes/lowering.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using namespace ops;
using passes::check_attributes;
using passes::composite;
using passes::Lowering;

/// (x, keys) → the place of each element among the keys, which ascend; their number where it is none.
Types find_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  const DType dtype = dtype_of(node, 0);
  if (dtype != kI64 && dtype != kF32 && dtype != kF64 && !dtype.is_string())
    return bad_types(node, "it does not look up " + dtype.to_string());
  return one_type(kI64, shape_of(node, 0));
}
constexpr HostRule find_rule{.function = "fettle_host_find"};

/// keys_*, values_* or default_*, whichever of them the node has. Nothing: none.
Result<std::optional<ConstantTensor>> list_attr(const Node& node, const std::string& what, bool is_one) {
  std::optional<ConstantTensor> found;
  const std::string plural = is_one ? "" : "s";
  for (const std::string& name :
       {what + "string" + plural, what + "int64" + plural, what + "float" + plural, what + "tensor"}) {
    const AttrValue* value = node.attrs.find(name);
    if (!value) continue;
    if (found) return bad_attribute(node, "it has several of " + what + "*");
    if (const auto* tensor = std::get_if<ConstantTensor>(value))
      found = reshaped(*tensor, {tensor->n_elems()});
    else if (const auto* text = std::get_if<std::string>(value))
      found = reshaped(string_scalar(*text), {1});
    else if (const auto* texts = std::get_if<std::vector<std::string>>(value)) {
      FETTLE_TRY(found, string_tensor(*texts, {std::ssize(*texts)}));
    } else if (const auto* integer = std::get_if<int64_t>(value))
      found = int_list(std::vector{*integer});
    else if (const auto* integers = std::get_if<std::vector<int64_t>>(value))
      found = int_list(*integers);
    else if (const auto* number = std::get_if<double>(value))
      found = reshaped(scalar(*number), {1});
    else if (const auto* numbers = std::get_if<std::vector<double>>(value)) {
      FETTLE_TRY(found, to_tensor(*numbers, kF32, {std::ssize(*numbers)}));
    }
    if (!found) return bad_attribute(node, name + " is of another type");
  }
  return found;
}

/// Keys in order, and which of them each is.
struct Keys {
  ConstantTensor sorted;
  std::vector<int64_t> places;
};

template <class T>
Keys sort_keys(const ConstantTensor& keys) {
  const auto elems = keys.elems<T>();
  const auto ahead = [&](int64_t a, int64_t b) {
    const T x = elems[static_cast<size_t>(a)], y = elems[static_cast<size_t>(b)];
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(x) || std::isnan(y)) return !std::isnan(x);  // NaN is last
    return x < y;
  };
  Keys made;
  made.places.resize(elems.size());
  std::iota(made.places.begin(), made.places.end(), 0);
  std::ranges::stable_sort(made.places, ahead);
  // Of equal keys the first counts, as in ONNX Runtime.
  const auto same = [&](int64_t a, int64_t b) { return !ahead(a, b) && !ahead(b, a); };
  made.places.erase(std::unique(made.places.begin(), made.places.end(), same), made.places.end());
  TensorBuilder sorted = make_tensor(keys.dtype, {std::ssize(made.places)}).value();
  for (size_t i = 0; i < made.places.size(); ++i) sorted.elems<T>()[i] = elems[static_cast<size_t>(made.places[i])];
  made.sorted = std::move(sorted).finish();
  return made;
}

/// What elements become that are no key, of the values' type.
Result<ConstantTensor> default_value(const Node& node, DType dtype) {
  std::optional<ConstantTensor> found;
  if (node.attrs.has("default_tensor")) {
    const ConstantTensor* given = node.attrs.get_tensor("default_tensor");
    if (!given || given->n_elems() != 1) return bad_attribute(node, "default_tensor is no one element");
    found = reshaped(*given, {1});
  } else if (dtype.is_string()) {
    found = reshaped(string_scalar(node.attrs.get_string("default_string", "_Unused")), {1});
  } else if (dtype.is_float()) {
    FETTLE_TRY(found, filled(node.attrs.get_float("default_float", -0.0), dtype, {1}));
  } else {
    const int64_t number = node.attrs.get_int("default_int64", -1);
    FETTLE_TRY(found, dtype == kI64 ? int_list({{number}}) : filled(static_cast<double>(number), dtype, {1}));
  }
  if (found->dtype != dtype)
    return bad_types(
        node, fmt::format("the default is of {}, values are of {}", found->dtype.to_string(), dtype.to_string()));
  return *found;
}

/// The first version had one list: of strings, whose places are the integers.
void take_classes(const Node& node, std::optional<ConstantTensor>& keys, std::optional<ConstantTensor>& values) {
  const auto* classes = std::get_if<std::vector<std::string>>(node.attrs.find("classes_strings"));
  if (!classes) return;
  const ConstantTensor texts = string_tensor(*classes, {std::ssize(*classes)}).value();
  const ConstantTensor places = int_list(first_numbers(classes->size()));
  const bool is_string = dtype_of(node, 0).is_string();
  keys = is_string ? texts : places;
  values = is_string ? places : texts;
}

// The value of each element that is one of the keys; `otherwise` for others.
Result<std::vector<Value*>> looked_up(Lowering& g, const Node& node, ConstantTensor keys, const ConstantTensor& values,
                                      const ConstantTensor& otherwise) {
  const DType dtype = dtype_of(node, 0);
  if (keys.dtype != dtype)
    return bad_types(node,
                     fmt::format("its input is of {}, keys are of {}", dtype.to_string(), keys.dtype.to_string()));
  // Looked up as one of the types that there is a search for.
  const DType searched = dtype.is_string() || dtype == kF64 ? dtype : dtype.is_float() ? kF32 : kI64;
  Value* x = g.cast(node.inputs[0], searched);
  if (searched != dtype) {
    std::vector<double> numbers = to_doubles(keys);
    FETTLE_TRY(keys, to_tensor(numbers, searched, keys.shape));
  }
  const Keys sorted = searched == kF32   ? sort_keys<float>(keys)
                      : searched == kF64 ? sort_keys<double>(keys)
                                         : sort_keys<int64_t>(keys);
  Value* table = g("Gather", {g.constant(values), g.ints(sorted.places)});
  table = g("Concat", {table, g.constant(otherwise)}, {{{"axis", int64_t{0}}}});
  return std::vector{g("Gather", {table, g("FindAmong", {x, g.constant(sorted.sorted)})})};
}

Result<std::vector<Value*>> label_encoder(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"classes_strings", "default_float", "default_int64", "default_string",
                                          "default_tensor", "keys_floats", "keys_int64s", "keys_strings", "keys_tensor",
                                          "values_floats", "values_int64s", "values_strings", "values_tensor"}));
  FETTLE_TRY(std::optional<ConstantTensor> keys, list_attr(node, "keys_", false));
  FETTLE_TRY(std::optional<ConstantTensor> values, list_attr(node, "values_", false));
  if (node.attrs.has("classes_strings")) take_classes(node, keys, values);
  if (!keys || !values) return bad_attribute(node, "it lacks keys or values");
  if (keys->n_elems() != values->n_elems())
    return bad_attribute(node, fmt::format("it has {} keys and {} values", keys->n_elems(), values->n_elems()));
  FETTLE_TRY(const ConstantTensor otherwise, default_value(node, values->dtype));
  return looked_up(g, node, std::move(*keys), *values, otherwise);
}

// Strings become numbers, or numbers strings: the lists are both.
Result<std::vector<Value*>> category_mapper(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"cats_int64s", "cats_strings", "default_int64", "default_string"}));
  const std::vector<std::string> list = string_list(node, "cats_strings");
  const ConstantTensor numbers = int_list(node.attrs.get_ints("cats_int64s"));
  if (std::ssize(list) != numbers.n_elems())
    return bad_attribute(
        node, fmt::format("cats_strings has {} elements, and cats_int64s {}", list.size(), numbers.n_elems()));
  FETTLE_TRY(const ConstantTensor texts, string_tensor(list, {numbers.n_elems()}));
  const bool is_string = dtype_of(node, 0).is_string();
  FETTLE_TRY(const ConstantTensor otherwise, default_value(node, is_string ? kI64 : kString));
  return is_string ? looked_up(g, node, texts, numbers, otherwise) : looked_up(g, node, numbers, texts, otherwise);
}

constexpr OpDef label_encoder_defs[] = {
    composite<label_encoder>("ai.onnx.ml.LabelEncoder", 1),
    composite<category_mapper>("ai.onnx.ml.CategoryMapper", 1),
    define(kOpaque, "FindAmong", 2, find_type, nullptr, {.host = &find_rule}),
};

}  // namespace

extern constinit const OpFamily label_encoder_ops{"label_encoder", label_encoder_defs};

}  // namespace fettle
