#include "graph/passes/lower_data_sized.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/node_builder.h"

namespace fettle::passes {
namespace {

constexpr int64_t kF64Code = 11, kI64Code = 7;  // ONNX's numbers of types

class Lowering {
 public:
  Lowering(Graph& graph, Node* node) : graph_(graph), node_(*node), nodes_(graph, node->name + ".", node->provenance) {}

  std::vector<Node*> range() {
    Value* start = as("start", node_.inputs[0], kF64Code);
    Value* limit = as("limit", node_.inputs[1], kF64Code);
    Value* delta = as("delta", node_.inputs[2], kF64Code);
    Value* steps = value("Ceil", "ceil", {value("Div", "steps", {value("Sub", "way", {limit, start}), delta})});
    // A step of 0 would make it infinite.
    Value* most = nodes_.constant("most", scalar(static_cast<double>(kMaxDim), kF64));
    Value* least = nodes_.constant("least", scalar(0, kF64));
    Value* some = value("Max", "some", {value("Min", "finite", {steps, most}), least});
    std::vector<Value*> inputs = node_.inputs;
    inputs.push_back(as("count", some, kI64Code));
    return replaced_by("Range", std::move(inputs), {});
  }

  std::vector<Node*> one_hot() {
    return replaced_by("OneHot", {node_.inputs[0], as("depth", node_.inputs[1], kI64Code), node_.inputs[2]},
                       node_.attrs);
  }

  /// An extent is the number that the data state; that of the input where this is 0; what the others leave where it is
  /// -1. Those that data decide become sizes, with a rule that all of them together have the input's elements.
  std::vector<Node*> reshape() {
    const Shape& in = node_.inputs[0]->shape();
    const std::vector<Dim> stated = *ops::content_of(*node_.inputs[1]);
    const bool allow_zero = node_.attrs.get_int("allowzero", 0) != 0;
    Value* shape = as("stated", node_.inputs[1], kI64Code);
    Value *zero = nodes_.number("zero", 0), *minus_one = nodes_.number("minus_one", -1), *one = nodes_.number("one", 1);
    if (!allow_zero) {
      std::vector<Value*> extents;
      Value* all = value("Shape", "shape", {node_.inputs[0]});
      for (size_t d = 0; d < stated.size(); ++d)
        extents.push_back(d < in.size() ? nodes_.pick("extent", all, int_list_of({static_cast<int64_t>(d)}))
                                        : int_list_of({0}));
      Value* before = value("Concat", "before", std::move(extents), {{"axis", int64_t{0}}});
      shape = value("Where", "kept", {value("Equal", "is_zero", {shape, zero}), before, shape});
    }
    Value* is_open = value("Equal", "is_open", {shape, minus_one});
    Value* known = value("Where", "known", {is_open, one, shape});
    Value* product = value("ReduceProd", "product", {known}, {{"keepdims", int64_t{0}}});
    Value* rest =
        value("Div", "rest", {value("Size", "size", {node_.inputs[0]}), value("Max", "some", {product, one})});
    Value* resolved = value("Where", "resolved", {is_open, rest, shape});
    std::vector<Dim> dims;
    for (size_t d = 0; d < stated.size(); ++d) {
      const bool is_kept = stated[d] == Dim(0) && !allow_zero && d < in.size();
      if (is_kept || !(ops::is_signed_by_data(stated[d]) || stated[d].min() < 0))
        dims.push_back(is_kept ? in[d] : stated[d]);
      else
        dims.push_back(ops::fresh_size(fmt::format("{}.{}", node_.name, d), 0, kMaxDim));
    }
    nodes_.remember(add_size_definition(graph_, resolved, dims));
    return replaced_by("Reshape", {node_.inputs[0]}, {{"shape", dims_attr(dims)}, {"allowzero", int64_t{1}}});
  }

 private:
  Value* value(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs = {}) {
    return nodes_.value(op, what, std::move(inputs), std::move(attrs));
  }
  Value* as(std::string_view what, Value* x, int64_t type) { return value("Cast", what, {x}, {{"to", type}}); }
  Value* int_list_of(const std::vector<int64_t>& list) const { return nodes_.constant("list", int_list(list)); }

  std::vector<Node*> replaced_by(std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
    const Node* made = nodes_.add(op, "made", std::move(inputs), std::move(attrs));
    graph_.replace_node(&node_, made->output());
    return nodes_.added();
  }

  Graph& graph_;
  Node& node_;
  NodeBuilder nodes_;
};

bool has_unknown_bounds(const Node& node) {
  if (node.op->name != "Range" || node.inputs.size() != 3 || node.attrs.has("count")) return false;
  const auto is_known = [](const Value* bound) { return bound->is_constant() || ops::content_of(*bound).has_value(); };
  return !std::ranges::all_of(node.inputs, is_known);
}

// A depth may be of any type.
bool has_unknown_depth(const Node& node) {
  const Value* depth = node.op->name == "OneHot" ? node.input(1) : nullptr;
  return depth && !depth->is_constant() && !depth->content && depth->dtype() != kI64;
}

}  // namespace

std::optional<std::vector<Node*>> lower_data_sized(Graph& graph, Node* node) {
  if (has_unknown_bounds(*node)) return Lowering(graph, node).range();
  if (has_unknown_depth(*node)) return Lowering(graph, node).one_hot();
  if (node->op->name == "Reshape" && node->input(1) && define_sizes(graph, node->inputs[1], -kMaxDim, kMaxDim) &&
      std::ranges::any_of(*ops::content_of(*node->inputs[1]), ops::is_signed_by_data))
    return Lowering(graph, node).reshape();
  return std::nullopt;
}

}  // namespace fettle::passes
