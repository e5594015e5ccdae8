#include "graph/passes/lowering.h"

#include <fmt/format.h>

#include "graph/op_registry.h"

namespace fettle::passes {

std::vector<Value*> Lowering::many(std::string_view op, std::vector<Value*> inputs, Attrs attrs, size_t n_outputs) {
  if (!status_) return std::vector<Value*>(n_outputs, &nothing_);
  Node* node = nodes_.add(op, short_name(*find_op(op)), std::move(inputs), std::move(attrs), n_outputs);
  auto types = node->op->infer(*node);
  if (!types) {
    status_ = fail(std::move(types.error()));
    return std::vector<Value*>(n_outputs, &nothing_);
  }
  for (size_t i = 0; i < n_outputs; ++i) node->outputs[i]->type = (*types)[i];
  return node->outputs;
}

Value* Lowering::operator()(std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  return many(op, std::move(inputs), std::move(attrs), 1)[0];
}

Value* Lowering::cast(Value* x, DType dtype) {
  return x->dtype() == dtype ? x : (*this)("Cast", {x}, {{{"to", onnx_number(dtype)}}});
}

Value* Lowering::reshape(Value* x, Shape shape) {
  return x->shape() == shape
             ? x
             : (*this)("Reshape", {x}, {{{"shape", dims_attr(std::move(shape))}, {"allowzero", int64_t{1}}}});
}

Value* Lowering::slice(Value* x, int64_t axis, int64_t start, int64_t end) {
  Attrs attrs;
  attrs.set("starts", std::vector<int64_t>{start});
  attrs.set("ends", std::vector<int64_t>{end});
  attrs.set("axes", std::vector<int64_t>{axis});
  return (*this)("Slice", {x}, std::move(attrs));
}

Value* Lowering::reduce(std::string_view op, Value* x, std::vector<int64_t> axes, bool keep_dims) {
  if (axes.empty()) return x;
  return (*this)(op, {x}, {{{"axes", std::move(axes)}, {"keepdims", int64_t{keep_dims}}}});
}

Result<std::vector<Node*>> lower_node(Graph& graph, Node* node, Expansion expansion) {
  Lowering g(graph, *node);
  FETTLE_TRY(const std::vector<Value*> results, expansion(g, *node));
  FETTLE_TRY_VOID(g.status());
  if (results.size() < node->outputs.size())
    return ops::bad_attribute(*node, fmt::format("it has {} outputs", results.size()));
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    if (!results[i] && graph.use_count(node->outputs[i]) > 0)
      return ops::bad_attribute(*node, fmt::format("its output {} is not supported", i));
    if (results[i]) graph.replace_uses(node->outputs[i], results[i]);
  }
  graph.erase(node);
  return g.added();
}

}  // namespace fettle::passes
