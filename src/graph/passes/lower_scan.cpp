#include "graph/passes/lower_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/control.h"
#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/node_builder.h"

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
        nodes_(graph, scan->name + ".", scan->provenance),
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
    return nodes_.added();
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

  void add_loop() {
    LoopBuilder loop(nodes_, nodes_.extent(scan_.inputs[n_state_], in_axes_[0]));
    std::vector<Value*> given;
    for (size_t i = 0; i < scan_.inputs.size(); ++i) {
      const std::string& name = scan_.bodies[0]->inputs()[i]->name;
      given.push_back(i < n_state_ ? loop.carry(name, scan_.inputs[i]) : loop.capture(name, scan_.inputs[i]));
    }
    for (size_t i = 0; i < n_scanned_; ++i) {
      Value* at = in_directions_[i] != 0 ? loop.backwards() : loop.iteration();
      Value*& slice = given[n_state_ + i];
      slice = loop.body().pick(slice->name, slice, at, in_axes_[i]);
    }
    const std::vector<Value*> values = inline_body(loop.body().graph(), *scan_.bodies[0], given, {});
    std::vector<LoopBuilder::Result> results, rows;
    for (size_t i = 0; i < values.size(); ++i)
      (i < n_state_ ? results : rows).push_back({scan_.bodies[0]->outputs()[i].name, values[i]});
    std::vector<std::string> outputs;
    for (const Value* output : scan_.outputs) outputs.push_back(output->name);
    loop_ = loop.finish(scan_.name, results, rows, std::move(outputs));
  }

  // What the loop stacks along the first axis, in the order and along the axis that the scan has it.
  Result<Value*> placed(Value* rows, size_t i) {
    if (out_directions_[i] != 0) rows = nodes_.reversed(rows);
    if (out_axes_[i] == 0) return rows;
    // The body's types are known once the loop's are inferred; its ranks are the model's.
    const std::optional<int> rank = row_rank(i);
    if (!rank) return fail(ErrorCode::E604, "Scan: the rank of a result is not known", scan_.name);
    FETTLE_TRY(const int64_t axis, positive_axis(scan_, out_axes_[i], *rank + 1));
    std::vector<int64_t> order(static_cast<size_t>(*rank));
    std::iota(order.begin(), order.end(), 1);
    order.insert(order.begin() + axis, 0);
    return nodes_.transposed(rows, std::move(order));
  }

  std::optional<int> row_rank(size_t i) const {
    const Value* row = scan_.bodies[0]->outputs()[n_state_ + i].value;
    return row->type ? std::optional<int>(row->rank()) : std::nullopt;
  }

  Graph& graph_;
  Node& scan_;
  NodeBuilder nodes_;
  size_t n_state_, n_scanned_, n_results_;
  std::vector<int64_t> in_axes_, in_directions_, out_axes_, out_directions_;
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
    if (i >= captured_inputs(scan).first) body.inputs()[i]->content = scan.inputs[i]->content;
  }
}

Result<std::vector<Node*>> lower_scan(Graph& graph, Node* scan) { return ScanLowering(graph, scan).run(); }

}  // namespace fettle::passes
