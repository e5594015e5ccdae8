#include "frontend/onnx/description.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using onnx::TensorProto;

onnx::TypeProto::Tensor* tensor(onnx::ValueInfoProto* value, const std::string& name) {
  value->set_name(name);
  auto* made = value->mutable_type()->mutable_tensor_type();
  made->set_elem_type(TensorProto::FLOAT);
  return made;
}

// y = x + w; x: [N, 3, ?], of which the last denotes columns; w is an input, too.
onnx::ModelProto sum() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("tests");
  model.add_opset_import()->set_version(17);
  auto* prop = model.add_metadata_props();
  prop->set_key("key");
  prop->set_value("value");
  auto& graph = *model.mutable_graph();
  graph.set_name("g");
  auto* x = tensor(graph.add_input(), "x")->mutable_shape();
  x->add_dim()->set_dim_param("N");
  x->add_dim()->set_dim_value(3);
  x->add_dim()->set_denotation("COLUMNS");
  tensor(graph.add_input(), "w")->mutable_shape()->add_dim()->set_dim_value(2);
  auto* w = graph.add_initializer();
  w->set_name("w");
  w->set_data_type(TensorProto::FLOAT);
  w->add_dims(2);
  w->add_float_data(1);
  w->add_float_data(2);
  auto* node = graph.add_node();
  node->set_op_type("Add");
  node->add_input("x");
  node->add_input("w");
  node->add_output("y");
  auto* y = tensor(graph.add_output(), "y")->mutable_shape();
  for (const char* name : {"N", "C", "W"}) y->add_dim()->set_dim_param(name);
  return model;
}

OnnxModel read(const onnx::ModelProto& model) { return {std::make_shared<onnx::ModelProto>(model)}; }

onnx::ModelProto changed(const onnx::ModelProto& model, const ModelChanges& changes) {
  const auto made = changed_model(read(model), changes);
  EXPECT_TRUE(made);
  return made ? *made->proto : onnx::ModelProto();
}

template <class T>
std::optional<ErrorCode> code_of(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

TEST(Description, SaysWhatTheFileSays) {
  const ModelDescription made = describe_model(read(sum()));
  EXPECT_EQ(made.producer, "tests");
  EXPECT_EQ(made.metadata.at("key"), "value");
  ASSERT_EQ(made.inputs.size(), 1u);
  EXPECT_EQ(made.inputs[0].type, "tensor(float)");
  EXPECT_EQ(made.inputs[0].dims[0].name, "N");
  EXPECT_EQ(made.inputs[0].dims[1].extent, 3);
  EXPECT_EQ(made.inputs[0].dims[2].extent, -1);
  ASSERT_EQ(made.overridable.size(), 1u);
  EXPECT_EQ(made.overridable[0].name, "w");
  EXPECT_EQ(made.nodes[0].op_type, "Add");
}

Result<OnnxModel> outline_of(const std::string& bytes) {
  return parse_onnx_outline(std::as_bytes(std::span(bytes)), std::nullopt);
}

TEST(Description, AnOutlineLacksTheContentOfInitializersAlone) {
  onnx::ModelProto model = sum();
  model.mutable_graph()->mutable_node(0)->add_attribute()->mutable_t()->set_raw_data("kept");
  auto* outside = model.mutable_graph()->add_initializer();
  outside->set_name("o");
  outside->set_data_location(TensorProto::EXTERNAL);
  auto* entry = outside->add_external_data();
  entry->set_key("location");
  entry->set_value("o.bin");
  auto* large = model.mutable_graph()->add_initializer();
  large->set_name("l");
  large->set_raw_data(std::string(1000, 'l'));
  const auto outline = outline_of(model.SerializeAsString());
  ASSERT_TRUE(outline);
  EXPECT_EQ(external_files(*outline), std::vector<std::string>{"o.bin"});
  for (int i : {0, 2}) {
    model.mutable_graph()->mutable_initializer(i)->clear_float_data();
    model.mutable_graph()->mutable_initializer(i)->clear_raw_data();
  }
  EXPECT_EQ(outline->proto->SerializeAsString(), model.SerializeAsString());
}

TEST(Description, AnOutlineIsRefusedWhereTheModelIs) {
  const std::string bytes = sum().SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string part = bytes.substr(0, n);
    EXPECT_EQ(code_of(outline_of(part)), code_of(parse_onnx(std::as_bytes(std::span(part)), std::nullopt))) << n;
  }
}

TEST(Description, FixesExtents) {
  const auto made = changed(sum(), {.named_dims = {{"N", 4}, {"M", 5}}, .denoted_dims = {{"COLUMNS", 2}}});
  const auto& shape = made.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_value(), 4);
  EXPECT_EQ(shape.dim(2).dim_value(), 2);
  EXPECT_EQ(made.graph().output(0).type().tensor_type().shape().dim(1).dim_param(), "C");
}

TEST(Description, ShapesOfACallLeaveNothingDeclared) {
  const auto made = changed(sum(), {.input_shapes = {{"x", {4, 3, -1}}}});
  const auto& shape = made.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_value(), 4);
  EXPECT_FALSE(shape.dim(2).has_dim_value());
  EXPECT_TRUE(made.graph().output(0).type().tensor_type().shape().dim(1).dim_param().empty());
}

TEST(Description, GivesInitializers) {
  const float values[] = {7, 8};
  GivenInitializer given{.type = TensorProto::FLOAT, .shape = {2}};
  given.bytes.assign(reinterpret_cast<const char*>(values), sizeof values);
  const auto made = changed(sum(), {.initializers = {{"w", given}}});
  ASSERT_EQ(made.graph().initializer_size(), 1);
  EXPECT_EQ(made.graph().initializer(0).raw_data(), given.bytes);
  EXPECT_EQ(made.graph().initializer(0).float_data_size(), 0);
  EXPECT_EQ(changed(sum(), {.initializers = {{"x", given}}}).graph().initializer_size(), 2);
  EXPECT_EQ(code_of(changed_model(read(sum()), {.initializers = {{"v", given}}})), ErrorCode::E704);
  given.is_optional = true;
  EXPECT_EQ(changed(sum(), {.initializers = {{"v", given}}}).graph().initializer_size(), 1);
}

TEST(Description, FilesAreInMemory) {
  const std::string bytes = "12345678";
  const auto kept = std::make_shared<std::string>(bytes);
  const onnx_reader::MappedFile file{{kept, reinterpret_cast<const std::byte*>(kept->data())}, 8};
  const auto made = changed_model(read(sum()), {.files = {{"w.bin", file}}});
  ASSERT_TRUE(made);
  onnx_reader::ExternalFiles files(made->data);
  const auto slice = files.slice("w.bin", 4, 4);
  ASSERT_TRUE(slice);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice->bytes.get()), 4), "5678");
}

}  // namespace
}  // namespace fettle
