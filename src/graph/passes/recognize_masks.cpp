#include <algorithm>
#include <functional>
#include <limits>

#include "graph/op_util.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

/// Scores of hidden keys that no exponential tells from -inf, whatever was added to them.
constexpr double kAsGoodAsInfinite = -1e37;

/// Integers that count on along one dimension, and repeat along no other: start, start + 1, …
struct Places {
  Dim start = 0;
  size_t from_end = 0;  // the dimension, 1 is the last; 0: one number
};

std::optional<size_t> long_dimension(const Shape& shape) {
  std::optional<size_t> found = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Dim(1)) continue;
    if (*found != 0) return {};
    found = shape.size() - d;
  }
  return found;
}

std::optional<Dim> one_number(const Value* value) {
  const auto content = value ? ops::content_of(*value) : std::nullopt;
  return content && content->size() == 1 ? std::optional(content->front()) : std::nullopt;
}

std::optional<Places> places_of(const Value* value) {
  if (!value || !value->dtype().is_int()) return {};
  const auto dimension = long_dimension(value->shape());
  if (!dimension) return {};
  if (*dimension == 0)
    if (const auto number = one_number(value)) return Places{*number, 0};
  if (value->is_constant()) {
    const int64_t count = value->constant->n_elems();
    for (int64_t i = 0; i < count; ++i)
      if (value->constant->int_at(i) != value->constant->int_at(0) + i) return {};
    return count > 0 ? std::optional(Places{value->constant->int_at(0), *dimension}) : std::nullopt;
  }
  const Node* node = value->producer;
  if (!node) return {};
  if (is(node, "Range")) {
    const auto start = one_number(node->input(0)), step = one_number(node->input(2));
    return start && step && *step == Dim(1) ? std::optional(Places{*start, 1}) : std::nullopt;
  }
  if (node->op->is_reshape || is(node, "Cast")) {
    auto places = places_of(node->input(0));
    if (places && places->from_end > 0) places->from_end = *dimension;
    return places;
  }
  if ((is(node, "Add") || is(node, "Sub")) && node->inputs.size() == 2) {
    for (const size_t i : {0, 1}) {
      const auto number = one_number(node->input(1 - i));
      auto places = number ? places_of(node->input(i)) : std::nullopt;
      if (!places || (i == 1 && is(node, "Sub"))) continue;
      places->start = is(node, "Add") ? places->start + *number : places->start - *number;
      return places;
    }
  }
  return {};
}

/// Truth values: key j of query i has `of_seen` where j <= i + offset, else the other.
struct Seen {
  Dim offset = 0;
  bool of_seen = true;
  Dim queries = 1, keys = 1;
};

/// The last two extents, where all others are 1.
std::optional<std::pair<Dim, Dim>> matrix_of(const Shape& shape) {
  if (shape.size() < 2) return {};
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    if (!(shape[d] == Dim(1))) return {};
  return std::pair(shape[shape.size() - 2], shape.back());
}

// Of a constant: where each row changes from one to the other.
std::optional<Seen> constant_seen(const ConstantTensor& mask, const std::function<bool(int64_t)>& is_first) {
  const size_t rank = mask.shape.size();
  const int64_t rows = mask.shape[rank - 2], columns = mask.shape.back();
  if (rows < 1 || columns < 2) return {};
  int64_t seen = 0;
  while (seen < columns && is_first(seen)) ++seen;
  if (seen == 0 || seen == columns) return {};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (is_first(i * columns + j) != (j <= i + seen - 1)) return {};
  return Seen{.offset = seen - 1, .queries = rows, .keys = columns};
}

std::optional<Seen> compared(const Node& node) {
  const bool less = is(&node, "Less"), less_equal = is(&node, "LessOrEqual");
  const bool greater = is(&node, "Greater"), greater_equal = is(&node, "GreaterOrEqual");
  if (!less && !less_equal && !greater && !greater_equal) return {};
  const auto matrix = matrix_of(node.output()->shape());
  auto a = places_of(node.input(0)), b = places_of(node.input(1));
  if (!matrix || !a || !b) return {};
  // a <= b, or a < b; where that is of queries and keys, the rest is hidden.
  bool strict = less || greater;
  if (greater || greater_equal) std::swap(a, b);
  Seen seen{.queries = matrix->first, .keys = matrix->second};
  const auto is_query = [&](const Places& p) { return p.from_end == 2 || (p.from_end == 0 && seen.queries == Dim(1)); };
  if (a->from_end == 1 && is_query(*b)) {
    seen.offset = b->start - a->start - (strict ? 1 : 0);
  } else if (b->from_end == 1 && is_query(*a)) {
    // i + s <= j + t hides: seen is j + t <= i + s - 1.
    seen.offset = a->start - b->start - (strict ? 0 : 1);
    seen.of_seen = false;
  } else {
    return {};
  }
  return seen;
}

/// A Trilu of one number: it stays where j <= i + offset (`lower`), or where not.
struct Triangle {
  Dim offset = 0;
  bool lower = true;
  double number = 0;
};
std::optional<Triangle> triangle_of(const Node& node) {
  if (!is(&node, "Trilu") || !matrix_of(node.output()->shape())) return {};
  const Node* filler = node.input(0)->producer;
  std::optional<double> number;
  if (is(filler, "ConstantOfShape")) {
    const ConstantTensor* value = filler->attrs.get_tensor("value");
    number = value ? value->at(0) : 0;
  } else if (is(filler, "Expand")) {
    number = as_scalar(filler->input(0));
  }
  const auto k = ops::int_param(node, 1, "k");
  if (!number || !k) return {};
  const bool upper = node.attrs.get_int("upper", 1) != 0;
  return Triangle{.offset = k->value_or(0) - (upper ? 1 : 0), .lower = !upper, .number = *number};
}

std::optional<Seen> seen_of(const Value* mask) {
  const auto matrix = matrix_of(mask->shape());
  if (!matrix) return {};
  if (mask->is_constant()) {
    const ConstantTensor& data = *mask->constant;
    if (data.n_elems() == 0) return {};
    const bool first = data.int_at(0) != 0;
    auto seen = constant_seen(data, [&](int64_t i) { return (data.int_at(i) != 0) == first; });
    if (seen) seen->of_seen = first;
    return seen;
  }
  const Node* node = mask->producer;
  if (!node) return {};
  if (is(node, "Not")) {
    auto seen = seen_of(node->input(0));
    if (seen) seen->of_seen = !seen->of_seen;
    return seen;
  }
  if (is(node, "Cast") || node->op->is_reshape) {
    const Value* input = node->input(0);
    return matrix_of(input->shape()) == matrix ? seen_of(input) : std::nullopt;
  }
  if (const auto triangle = triangle_of(*node); triangle && triangle->number != 0)
    return Seen{triangle->offset, triangle->lower, matrix->first, matrix->second};
  return compared(*node);
}

/// Numbers that are added: 0 where a key is seen, and else `hidden`.
struct Bias {
  Seen seen;
  double hidden = 0;
};
std::optional<Bias> bias_of(const Value* bias) {
  const auto matrix = matrix_of(bias->shape());
  if (!matrix || !bias->dtype().is_float()) return {};
  if (bias->is_constant()) {
    const ConstantTensor& data = *bias->constant;
    if (data.n_elems() == 0 || data.at(0) != 0) return {};
    const double last = data.at(data.shape.back() - 1);
    for (int64_t i = 0; i < data.n_elems(); ++i)
      if (data.at(i) != 0 && data.at(i) != last) return {};
    const auto seen = constant_seen(data, [&](int64_t i) { return data.at(i) == 0; });
    return seen ? std::optional(Bias{*seen, last}) : std::nullopt;
  }
  const Node* node = bias->producer;
  if (!node) return {};
  if (node->op->is_reshape)
    return matrix_of(node->input(0)->shape()) == matrix ? bias_of(node->input(0)) : std::nullopt;
  if (const auto triangle = triangle_of(*node); triangle && !triangle->lower)
    return Bias{{triangle->offset, true, matrix->first, matrix->second}, triangle->number};
  if (!is(node, "Where")) return {};
  const auto seen = seen_of(node->input(0));
  const auto a = as_scalar(node->input(1)), b = as_scalar(node->input(2));
  if (!seen || !a || !b || (seen->of_seen ? *a : *b) != 0) return {};
  return Bias{*seen, seen->of_seen ? *b : *a};
}

// Whether `hidden` is as good as -inf to whoever reads the node.
bool hides(const Graph& graph, const Node& node, const Seen& seen, double hidden) {
  if (hidden == -std::numeric_limits<double>::infinity()) return true;
  if (!(hidden <= kAsGoodAsInfinite) || seen.offset.min() < 0) return false;  // each query sees some key
  const Node* reader = only_user(graph, node.output());
  const auto rank = static_cast<int64_t>(node.output()->shape().size());
  const int64_t axis = is(reader, "Softmax") && !reader->attrs.has("coerced") ? reader->attrs.get_int("axis", -1) : 0;
  return axis == -1 || (axis > 0 && axis == rank - 1);
}

bool recognize(Graph& graph, Node* node) {
  Value* scores = nullptr;
  std::optional<Seen> seen;
  if (is(node, "Where")) {
    seen = seen_of(node->input(0));
    if (!seen) return false;
    scores = node->input(seen->of_seen ? 1 : 2);
    const auto hidden = as_scalar(node->input(seen->of_seen ? 2 : 1));
    if (!hidden || !hides(graph, *node, *seen, *hidden)) return false;
  } else if (is(node, "Add")) {
    for (const size_t i : {1, 0}) {
      const auto bias = bias_of(node->input(i));
      if (!bias || !hides(graph, *node, bias->seen, bias->hidden)) continue;
      scores = node->input(1 - i);
      seen = bias->seen;
      break;
    }
  }
  if (!scores || !scores->dtype().is_float()) return false;
  const Shape& shape = node->output()->shape();
  if (scores->shape() != shape || shape.size() < 2 || !(shape[shape.size() - 2] == seen->queries) ||
      !(shape.back() == seen->keys))
    return false;
  return replace_with(graph, node, "CausalMask", {scores}, {{"offset", dims_attr({seen->offset})}});
}

}  // namespace

Result<> recognize_masks(Graph& graph, const PassContext& context) {
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (!node->erased) recognize(graph, node);
  return drop_dead(graph, context);
}

}  // namespace fettle::passes
