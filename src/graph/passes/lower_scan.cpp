#include "graph/passes/lower_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/control.h"
#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle::passes {
namespace {

using ops::bad_attribute;
using ops::positive_axis;

// One number for each of `count` slices or results; zeros where the attribute is missing.
Result<std::vector<int64_t>> numbers_of(const Node& node, std::string_view name, size_t count) {
  std::vector<int64_t> values = node.attrs.get_ints(name, std::vector<int64_t>(count, 0));
  if (values.size() != count)
    return bad_attribute(node, fmt::format("{} has {} elements instead of {}", name, values.size(), count));
  return values;
}

class ScanLowering {
 public:
  ScanLowering(Graph& graph, Node* scan)
      : graph_(graph),
        scan_(*scan),
        n_state_(static_cast<size_t>(scan->attrs.get_int("carried", 0))),
        n_scanned_(static_cast<size_t>(scan->attrs.get_int("num_scan_inputs", 0))),
        n_results_(scan->bodies[0]->outputs().size() - std::min(n_state_, scan->bodies[0]->outputs().size())) {}

  Result<std::vector<Node*>> run() {
    FETTLE_TRY(in_axes_, numbers_of(scan_, "scan_input_axes", n_scanned_));
    FETTLE_TRY(in_directions_, numbers_of(scan_, "scan_input_directions", n_scanned_));
    FETTLE_TRY(out_axes_, numbers_of(scan_, "scan_output_axes", n_results_));
    FETTLE_TRY(out_directions_, numbers_of(scan_, "scan_output_directions", n_results_));
    for (size_t i = 0; i < n_scanned_; ++i) {
      FETTLE_TRY(in_axes_[i], positive_axis(scan_, in_axes_[i], scan_.inputs[n_state_ + i]->rank()));
    }
    FETTLE_TRY_VOID(check_lengths());
    add_loop();
    for (size_t i = 0; i < scan_.outputs.size(); ++i) {
      Value* result = loop_->outputs[i];
      if (i >= n_state_) {
        FETTLE_TRY(result, placed(result, i - n_state_));
      }
      graph_.replace_uses(scan_.outputs[i], result);
    }
    graph_.erase(&scan_);
    return std::move(added_);
  }

 private:
  Dim length(size_t i) const { return scan_.inputs[n_state_ + i]->shape()[static_cast<size_t>(in_axes_[i])]; }

  Result<> check_lengths() const {
    for (size_t i = 1; i < n_scanned_; ++i)
      if (!may_equal(length(i), length(0)))
        return ops::bad_types(scan_,
                              fmt::format("it scans {} and {} slices", length(0).to_string(), length(i).to_string()));
    return {};
  }

  static Value* number(Graph& graph, const std::string& name, int64_t value) {
    return graph.add_constant(name, reshaped(int_list(std::vector<int64_t>{value}), {}));
  }
  std::string name(std::string_view what) const { return fmt::format("{}.{}", scan_.name, what); }

  Node* add(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs = {}) {
    Node* node = graph_.add_node(find_op(op), name(what), std::move(inputs), std::move(attrs));
    node->provenance = scan_.provenance;
    added_.push_back(node);
    return node;
  }

  void add_loop() {
    Node* shape = add("Shape", "shape", {scan_.inputs[n_state_]});
    Value* limit = add("Gather", "length", {shape->output(), number(graph_, name("axis"), in_axes_[0])})->output();
    std::vector<Value*> inputs = {limit, nullptr};
    inputs.insert(inputs.end(), scan_.inputs.begin(), scan_.inputs.end());

    auto body = std::make_shared<Graph>("body");
    Value* iteration = body->add_input("i");
    Value* condition = body->add_input("condition");
    std::vector<Value*> given;
    for (size_t i = 0; i < scan_.inputs.size(); ++i)
      given.push_back(body->add_input(scan_.bodies[0]->inputs()[i]->name));
    Value* backwards = nullptr;
    for (size_t i = 0; i < n_scanned_; ++i) {
      Value* at = iteration;
      if (in_directions_[i] != 0) {
        if (!backwards) {
          inputs.push_back(add("Sub", "last", {limit, number(graph_, name("one"), 1)})->output());
          Value* last = body->add_input("last");
          backwards = body->add_node(find_op("Sub"), "backwards", {last, iteration})->output();
        }
        at = backwards;
      }
      Attrs attrs;
      attrs.set("axis", in_axes_[i]);
      Value*& slice = given[n_state_ + i];
      slice = body->add_node(find_op("Gather"), slice->name, {slice, at}, std::move(attrs))->output();
    }
    const std::vector<Value*> results = inline_body(*body, *scan_.bodies[0], given, {});
    body->add_output("condition", condition);
    for (size_t i = 0; i < results.size(); ++i) body->add_output(scan_.bodies[0]->outputs()[i].name, results[i]);
    body->sort();

    Attrs attrs;
    attrs.set("carried", static_cast<int64_t>(n_state_));
    std::vector<std::string> outputs;
    for (const Value* output : scan_.outputs) outputs.push_back(output->name);
    loop_ = graph_.add_node(find_op("Loop"), scan_.name, std::move(inputs), std::move(attrs), std::move(outputs));
    loop_->bodies.push_back(std::move(body));
    loop_->provenance = scan_.provenance;
    added_.push_back(loop_);
  }

  // What the loop stacks along the first axis, in the order and along the axis that the scan has it.
  Result<Value*> placed(Value* rows, size_t i) {
    if (out_directions_[i] != 0) {
      Attrs attrs;
      attrs.set("starts", std::vector<int64_t>{-1});
      attrs.set("ends", std::vector<int64_t>{INT64_MIN});
      attrs.set("axes", std::vector<int64_t>{0});
      attrs.set("steps", std::vector<int64_t>{-1});
      rows = add("Slice", "reversed", {rows}, std::move(attrs))->output();
    }
    if (out_axes_[i] == 0) return rows;
    // The body's types are known once the loop's are inferred; its ranks are the model's.
    const std::optional<int> rank = row_rank(i);
    if (!rank) return fail(ErrorCode::E604, "Scan: the rank of a result is not known", scan_.name);
    FETTLE_TRY(const int64_t axis, positive_axis(scan_, out_axes_[i], *rank + 1));
    std::vector<int64_t> order(static_cast<size_t>(*rank));
    std::iota(order.begin(), order.end(), 1);
    order.insert(order.begin() + axis, 0);
    Attrs attrs;
    attrs.set("perm", std::move(order));
    return add("Transpose", "transposed", {rows}, std::move(attrs))->output();
  }

  std::optional<int> row_rank(size_t i) const {
    const Value* row = scan_.bodies[0]->outputs()[n_state_ + i].value;
    return row->type ? std::optional<int>(row->rank()) : std::nullopt;
  }

  Graph& graph_;
  Node& scan_;
  size_t n_state_, n_scanned_, n_results_;
  std::vector<int64_t> in_axes_, in_directions_, out_axes_, out_directions_;
  std::vector<Node*> added_;
  Node* loop_ = nullptr;
};

}  // namespace

void type_scan_body(const Node& scan) {
  const Graph& body = *scan.bodies[0];
  const auto n_state = static_cast<size_t>(scan.attrs.get_int("carried", 0));
  const auto n_scanned = static_cast<size_t>(scan.attrs.get_int("num_scan_inputs", 0));
  const std::vector<int64_t> axes = scan.attrs.get_ints("scan_input_axes", std::vector<int64_t>(n_scanned, 0));
  for (size_t i = 0; i < scan.inputs.size(); ++i) {
    TensorType type = *scan.inputs[i]->type;
    const auto rank = static_cast<int64_t>(type.shape.size());
    if (i >= n_state && i < n_state + n_scanned && i - n_state < axes.size()) {
      const int64_t axis = axes[i - n_state] < 0 ? axes[i - n_state] + rank : axes[i - n_state];
      if (axis >= 0 && axis < rank) type.shape.erase(type.shape.begin() + axis);
    }
    body.inputs()[i]->type = std::move(type);
  }
}

Result<std::vector<Node*>> lower_scan(Graph& graph, Node* scan) { return ScanLowering(graph, scan).run(); }

}  // namespace fettle::passes
