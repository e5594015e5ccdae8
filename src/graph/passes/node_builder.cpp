#include "graph/passes/node_builder.h"

#include "graph/op.h"

namespace fettle::passes {

Node* NodeBuilder::add(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs,
                       size_t n_outputs) {
  Node* node = graph_.add_node(find_op(op), name(what), std::move(inputs), std::move(attrs), {}, n_outputs);
  remember(node);
  return node;
}

Value* NodeBuilder::value(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs) {
  return add(op, what, std::move(inputs), std::move(attrs))->output();
}

void NodeBuilder::remember(Node* node) {
  node->provenance = provenance_;
  added_.push_back(node);
}

Value* NodeBuilder::constant(std::string_view what, ConstantTensor data) const {
  return graph_.add_constant(name(what), std::move(data));
}

Value* NodeBuilder::number(std::string_view what, int64_t value) const {
  return constant(what, reshaped(int_list(std::vector<int64_t>{value}), {}));
}

Value* NodeBuilder::extent(Value* x, int64_t axis) {
  return pick("extent", value("Shape", "shape", {x}), number("axis", axis));
}

Value* NodeBuilder::pick(std::string_view what, Value* x, Value* index, int64_t axis) {
  return value("Gather", what, {x, index}, {{{"axis", axis}}});
}

Value* NodeBuilder::transposed(Value* x, std::vector<int64_t> perm) {
  return value("Transpose", "transposed", {x}, {{{"perm", std::move(perm)}}});
}

Value* NodeBuilder::reversed(Value* x) {
  Attrs attrs;
  attrs.set("starts", std::vector<int64_t>{-1});
  attrs.set("ends", std::vector<int64_t>{INT64_MIN});
  attrs.set("axes", std::vector<int64_t>{0});
  attrs.set("steps", std::vector<int64_t>{-1});
  return value("Slice", "reversed", {x}, std::move(attrs));
}

LoopBuilder::LoopBuilder(NodeBuilder& outside, Value* limit)
    : outside_(outside),
      graph_(std::make_shared<Graph>("body")),
      body_(*graph_, "", outside.provenance()),
      iteration_(graph_->add_input("i")),
      condition_(graph_->add_input("condition")),
      inputs_{limit, nullptr} {}

Value* LoopBuilder::backwards() {
  if (!backwards_) {
    Value* last = outside_.value("Sub", "last", {inputs_[0], outside_.number("one", 1)});
    backwards_ = body_.value("Sub", "backwards", {capture("last", last), iteration_});
  }
  return backwards_;
}

Value* LoopBuilder::carry(std::string name, Value* initial) { return capture(std::move(name), initial); }

Value* LoopBuilder::capture(std::string name, Value* outside) {
  inputs_.push_back(outside);
  return graph_->add_input(std::move(name));
}

Node* LoopBuilder::finish(const std::string& name, const std::vector<Result>& results, const std::vector<Result>& rows,
                          std::vector<std::string> outputs) {
  graph_->add_output("condition", condition_);
  for (const auto* list : {&results, &rows})
    for (const Result& result : *list) graph_->add_output(result.name, result.value);
  graph_->sort();
  Node* loop =
      outside_.graph().add_node(find_op("Loop"), name, std::move(inputs_),
                                {{"carried", static_cast<int64_t>(results.size())}, {"keeps_shapes", int64_t{1}}},
                                std::move(outputs), results.size() + rows.size());
  loop->bodies.push_back(graph_);
  outside_.remember(loop);
  return loop;
}

}  // namespace fettle::passes
