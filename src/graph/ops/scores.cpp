#include "graph/ops/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numbers>

#include "graph/strings.h"

namespace fettle::ops {

using passes::Lowering;

Result<std::vector<double>> number_list(const Node& node, const std::string& name) {
  const AttrValue *list = node.attrs.find(name), *tensor = node.attrs.find(name + "_as_tensor");
  if (list && tensor) return bad_attribute(node, fmt::format("{} and {}_as_tensor are both given", name, name));
  const AttrValue* given = list ? list : tensor;
  if (!given) return std::vector<double>{};
  if (const auto* floats = std::get_if<std::vector<double>>(given)) return *floats;
  if (const auto* data = std::get_if<ConstantTensor>(given)) return to_doubles(*data);
  return bad_attribute(node, fmt::format("{} is no list of numbers", name));
}

std::vector<std::string> string_list(const Node& node, std::string_view name) {
  const AttrValue* given = node.attrs.find(name);
  const auto* list = given ? std::get_if<std::vector<std::string>>(given) : nullptr;
  return list ? *list : std::vector<std::string>{};
}

Result<PostTransform> post_transform(const Node& node) {
  constexpr std::string_view names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::string name = node.attrs.get_string("post_transform", "NONE");
  const auto* found = std::ranges::find(names, name);
  if (found == std::end(names)) return bad_attribute(node, fmt::format("post_transform is \"{}\"", name));
  return static_cast<PostTransform>(found - std::begin(names));
}

Value* probit(Lowering& g, Value* x) {
  const auto number = [&](double value) { return g.number(value, x->dtype()); };
  Value* z = g("Sub", {g("Mul", {x, number(2)}), number(1)});
  Value* log = g("Log", {g("Mul", {g("Sub", {number(1), z}), g("Add", {z, number(1)})})});
  constexpr double a = 0.147, pi = 3.14159;
  Value* v = g("Add", {g("Mul", {log, number(0.5)}), number(2 / (pi * a))});
  Value* root = g("Sqrt", {g("Sub", {g("Mul", {v, v}), g("Mul", {log, number(1 / a)})})});
  Value* y = g("Mul", {g("Sqrt", {g("Sub", {root, v})}), number(std::numbers::sqrt2)});
  return g("Where", {g("Less", {z, number(0)}), g("Neg", {y}), y});
}

namespace {

// A softmax over what is not about zero; the rest stays about zero.
Value* softmax_zero(Lowering& g, Value* scores) {
  const auto number = [&](double value) { return g.number(value, scores->dtype()); };
  Value* greatest = g.reduce("ReduceMax", scores, {1}, true);
  Value* counts = g("Greater", {g("Abs", {scores}), number(1e-7)});
  Value* power = g("Exp", {g("Sub", {scores, greatest})});
  Value* sum = g.reduce("ReduceSum", g("Where", {counts, power, number(0)}), {1}, true);
  Value* small = g("Mul", {scores, g("Exp", {g("Neg", {greatest})})});
  return g("Div", {g("Where", {counts, power, small}), sum});
}

}  // namespace

Value* transformed(Lowering& g, Value* scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::kNone:
      return scores;
    case PostTransform::kSoftmax:
      return g("Softmax", {scores}, {{{"axis", int64_t{1}}}});
    case PostTransform::kLogistic:
      return g("Sigmoid", {scores});
    case PostTransform::kSoftmaxZero:
      return softmax_zero(g, scores);
    case PostTransform::kProbit:
      return probit(g, scores);
  }
  return scores;
}

Result<Value*> of_two_classes(Lowering& g, const Node& node, Value* score, bool all_positive, PostTransform transform) {
  if (transform == PostTransform::kProbit)
    return bad_attribute(node, "post_transform is PROBIT, which says nothing of two classes with one score");
  const auto both = [&](Value* other, Value* s) { return g("Concat", {other, s}, {{{"axis", int64_t{1}}}}); };
  if (!all_positive) {
    Value* scores = both(g("Neg", {score}), score);
    return transform == PostTransform::kLogistic ? g("Sigmoid", {scores}) : scores;
  }
  if (transform == PostTransform::kLogistic) score = g("Sigmoid", {score});
  return both(g("Sub", {g.number(1, score->dtype()), score}), score);
}

Result<ClassLabels> ClassLabels::read(const Node& node, std::string_view ints) {
  const std::vector<int64_t> labels = node.attrs.get_ints(ints);
  const std::vector<std::string> texts = string_list(node, "classlabels_strings");
  if (labels.empty() == texts.empty())
    return bad_attribute(node, fmt::format("of {} and classlabels_strings, one must be given", ints));
  if (texts.empty()) return ClassLabels(int_list(labels));
  return string_tensor(texts, {std::ssize(texts)}).map([](ConstantTensor table) {
    return ClassLabels(std::move(table));
  });
}

Result<Value*> feature_rows(Lowering& g, const Node& node, DType dtype) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  const DType given = dtype_of(node, 0);
  if (!given.is_float() && given != kI32 && given != kI64)
    return bad_types(node, "its input is of " + given.to_string());
  Value* x = g.cast(node.inputs[0], dtype);
  return rank_of(node, 0) == 1 ? g.unsqueeze(x, {0}) : x;
}

}  // namespace fettle::ops
