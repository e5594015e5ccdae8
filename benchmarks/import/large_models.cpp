#include "import/large_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "onnx-ml.pb.h"

namespace fettle::bench {
namespace {

constexpr int64_t kExtent = 4;

/// A model under construction.
class Maker {
 public:
  Maker() {
    model_.set_ir_version(10);
    model_.add_opset_import()->set_version(21);
    graph_ = model_.mutable_graph();
    graph_->set_name("large");
  }

  /// size: the name of its extent, where it is open.
  void input(const std::string& name, const std::string& size = "") { typed(graph_->add_input(), name, size); }
  void output(const std::string& name, const std::string& size = "") { typed(graph_->add_output(), name, size); }
  std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    return add_node(graph_, op, inputs, output)->output(0);
  }
  void weight(const std::string& name) {
    onnx::TensorProto* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(kExtent);
    for (int64_t i = 0; i < kExtent; ++i) tensor->add_float_data(static_cast<float>(i) + 0.5f);
  }
  onnx::GraphProto* graph() { return graph_; }
  onnx::NodeProto* last_node() { return graph_->mutable_node(graph_->node_size() - 1); }
  std::string bytes() const { return model_.SerializeAsString(); }

  static onnx::NodeProto* add_node(onnx::GraphProto* graph, const std::string& op,
                                   const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto* made = graph->add_node();
    made->set_op_type(op);
    for (const std::string& input : inputs) made->add_input(input);
    made->add_output(output);
    return made;
  }

 private:
  static void typed(onnx::ValueInfoProto* value, const std::string& name, const std::string& size) {
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(onnx::TensorProto::FLOAT);
    onnx::TensorShapeProto::Dimension* dim = tensor->mutable_shape()->add_dim();
    if (size.empty())
      dim->set_dim_value(kExtent);
    else
      dim->set_dim_param(size);
  }

  onnx::ModelProto model_;
  onnx::GraphProto* graph_;
};

int count(double n, int full) { return std::max(1, static_cast<int>(n * full)); }
std::string numbered(const char* name, int i) { return fmt::format("{}{}", name, i); }

// One node over all of these.
std::string joined(Maker& m, const std::string& op, const std::vector<std::string>& read) {
  m.node(op, read, "y");
  if (op == "Concat") {
    onnx::AttributeProto* axis = m.last_node()->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
  }
  return "y";
}

// x → op → op → …
std::string chain(double n, const std::vector<std::string>& ops) {
  Maker m;
  m.input("x");
  std::string at = "x";
  for (int i = 0; i < count(n, 100'000); ++i)
    at = m.node(ops[static_cast<size_t>(i) % ops.size()], {at}, numbered("v", i));
  m.output(at);
  return m.bytes();
}

// Nodes over one input, summed up.
std::string parallel(double n) {
  Maker m;
  m.input("x");
  std::vector<std::string> sum;
  for (int i = 0; i < count(n, 50'000); ++i) {
    m.weight(numbered("w", i));
    sum.push_back(m.node(i % 2 ? "Add" : "Mul", {"x", numbered("w", i)}, numbered("v", i)));
  }
  m.output(m.node("Sum", sum, "y"));
  return m.bytes();
}

// One node of as many inputs, each with a size of its own or all of one.
std::string many_inputs(double n, const std::string& op, bool has_sizes) {
  Maker m;
  std::vector<std::string> read;
  for (int i = 0; i < count(n, 50'000); ++i) {
    read.push_back(numbered("x", i));
    m.input(read.back(), has_sizes ? numbered("N", i) : "");
  }
  m.output(joined(m, op, read), "M");
  return m.bytes();
}

// The same work again and again, for one node.
std::string equal_inputs(double n, const std::string& op) {
  Maker m;
  m.input("x");
  std::vector<std::string> read;
  for (int i = 0; i < count(n, 50'000); ++i) read.push_back(m.node("Exp", {"x"}, numbered("v", i)));
  m.output(joined(m, op, read), "M");
  return m.bytes();
}

std::string many_sizes(double n) {
  Maker m;
  for (int i = 0; i < count(n, 50'000); ++i) {
    m.input(numbered("x", i), numbered("N", i));
    m.output(m.node("Exp", {numbered("x", i)}, numbered("y", i)), numbered("N", i));
  }
  return m.bytes();
}

std::string many_outputs(double n) {
  Maker m;
  m.input("x");
  for (int i = 0; i < count(n, 50'000); ++i) m.output(m.node(i % 2 ? "Relu" : "Exp", {"x"}, numbered("y", i)));
  return m.bytes();
}

// One value that all nodes of a chain use, too.
std::string many_uses(double n) {
  Maker m;
  m.input("x");
  const std::string used = m.node("Exp", {"x"}, "used");
  std::string at = "x";
  for (int i = 0; i < count(n, 50'000); ++i) at = m.node(i % 2 ? "Add" : "Mul", {at, used}, numbered("v", i));
  m.output(at);
  return m.bytes();
}

std::string long_names(double n) {
  Maker m;
  const std::string name(static_cast<size_t>(count(n, 1 << 20)), 'n');
  m.input("x" + name);
  std::string at = "x" + name;
  for (int i = 0; i < 10; ++i) at = m.node("Exp", {at}, numbered("v", i) + name);
  m.output(at);
  return m.bytes();
}

// x + x, and that twice, …: numbers alone grow.
std::string doubled(double) {
  Maker m;
  m.input("x");
  std::string at = "x";
  for (int i = 0; i < 60; ++i) at = m.node("Add", {at, at}, numbered("v", i));
  m.output(at);
  return m.bytes();
}

// A truth value that data decide.
std::string condition(Maker& m) {
  m.node("ReduceMax", {"x"}, "largest");
  m.node("Cast", {"largest"}, "whether");
  onnx::AttributeProto* to = m.graph()->mutable_node(1)->add_attribute();
  to->set_name("to");
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(onnx::TensorProto::BOOL);
  return m.node("Squeeze", {"whether"}, "condition");
}

onnx::GraphProto* add_body(onnx::NodeProto* node, const std::string& name) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name(name);
  return attribute->mutable_g();
}

// An If over x, whose bodies are one node each.
std::string branch(Maker& m, const std::string& x, const std::string& name) {
  onnx::NodeProto* made = Maker::add_node(m.graph(), "If", {"condition"}, name);
  for (const char* op : {"Exp", "Relu"}) {
    onnx::GraphProto* body = add_body(made, op[0] == 'E' ? "then_branch" : "else_branch");
    Maker::add_node(body, op, {x}, name + op);
    body->add_output()->set_name(name + op);
  }
  return name;
}

std::string many_branches(double n) {
  Maker m;
  m.input("x");
  condition(m);
  std::string at = "x";
  for (int i = 0; i < count(n, 20'000); ++i) at = branch(m, at, numbered("v", i));
  m.output(at);
  return m.bytes();
}

// Ifs within bodies of Ifs.
void nest(onnx::GraphProto* graph, int depth, int& next) {
  const std::string name = numbered("y", next++);
  if (depth == 0) {
    Maker::add_node(graph, "Relu", {"x"}, name);
  } else {
    onnx::NodeProto* made = Maker::add_node(graph, "If", {"condition"}, name);
    nest(add_body(made, "then_branch"), depth - 1, next);
    nest(add_body(made, "else_branch"), 0, next);
  }
  graph->add_output()->set_name(name);
}

std::string nested_branches(double n, int depth) {
  Maker m;
  m.input("x");
  condition(m);
  int next = 0;
  nest(m.graph(), count(n, depth), next);
  return m.bytes();
}

}  // namespace

const std::vector<LargeModel>& large_models() {
  static const std::vector<LargeModel> models = {
      {"chain of 100,000 Relu and Exp", 5, [](double n) { return chain(n, {"Relu", "Exp"}); }},
      {"chain of 100,000 Identity", 5, [](double n) { return chain(n, {"Identity"}); }},
      {"chain of 100,000 Neg", 5, [](double n) { return chain(n, {"Neg"}); }},
      {"50,000 parallel Add and Mul", 5, parallel},
      {"a Sum of 50,000 inputs", 5, [](double n) { return many_inputs(n, "Sum", false); }},
      {"a Concat of 50,000 inputs", 5, [](double n) { return many_inputs(n, "Concat", false); }},
      {"a Sum of 50,000 open sizes", 5, [](double n) { return many_inputs(n, "Sum", true); }},
      {"a Concat of 50,000 open sizes", 5, [](double n) { return many_inputs(n, "Concat", true); }},
      {"a Max of 50,000 equal Exp", 5, [](double n) { return equal_inputs(n, "Max"); }},
      {"a Concat of 50,000 equal Exp", 5, [](double n) { return equal_inputs(n, "Concat"); }},
      {"50,000 open sizes", 5, many_sizes},
      {"50,000 outputs", 5, many_outputs},
      {"a value with 50,000 uses", 5, many_uses},
      {"names of 1 MB", 5, long_names},
      {"60 doublings", 5, doubled},
      {"20,000 If", 5, many_branches},
      {"15 nested If", 5, [](double n) { return nested_branches(n, 15); }},
      {"10,000 nested If", 5, [](double n) { return nested_branches(std::max(n, 0.1), 10'000); }, true},
  };
  return models;
}

}  // namespace fettle::bench
