#include "hostile/models.h"

#include <fstream>

#include "driver/load.h"
#include "graph/plan/plan.h"

namespace fettle::hostile {

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

onnx::NodeProto* add_node(onnx::GraphProto* graph, const std::string& op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return node;
}

onnx::AttributeProto* add_int(onnx::NodeProto* node, const std::string& name, int64_t value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
  return a;
}

onnx::AttributeProto* add_ints(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) a->add_ints(value);
  return a;
}

void add_value(onnx::ValueInfoProto* value, const std::string& name, const std::vector<int64_t>& dims, int type) {
  value->set_name(name);
  auto* tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const int64_t dim : dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

onnx::TensorProto* add_ints_tensor(onnx::GraphProto* graph, const std::string& name,
                                   const std::vector<int64_t>& values) {
  onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor->add_int64_data(value);
  return tensor;
}

onnx::GraphProto* add_body(onnx::NodeProto* node, const std::string& name, const std::string& output) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  a->mutable_g()->set_name(name);
  add_node(a->mutable_g(), "Relu", {"x"}, {output});
  a->mutable_g()->add_output()->set_name(output);
  return a->mutable_g();
}

onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("g");
  add_value(graph->add_input(), "x", {2, 4});
  add_node(graph, "Relu", {"x"}, {"h"});
  add_node(graph, "Gemm", {"h", "w"}, {"y"});
  onnx::TensorProto* w = graph->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(4);
  w->add_dims(3);
  for (int i = 0; i < 12; ++i) w->add_float_data(static_cast<float>(i) / 8);
  add_value(graph->add_output(), "y", {2, 3});
  return model;
}

Result<> read_model(const std::filesystem::path& path) {
  FETTLE_TRY(const Graph graph, load_model(path.string(), {}));
  FETTLE_TRY(const Plan plan, make_plan(graph));
  return {};
}

Kind model_kind(std::string name, Spoil spoil, int variants) {
  return {std::move(name), variants, [spoil = std::move(spoil)](int variant, const std::filesystem::path& folder) {
            onnx::ModelProto model = small_model();
            spoil(model, variant);
            write(folder / "model.onnx", model.SerializeAsString());
            return read_model(folder / "model.onnx");
          }};
}

}  // namespace fettle::hostile
