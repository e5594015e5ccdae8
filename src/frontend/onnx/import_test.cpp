#include "frontend/onnx/import.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "frontend/onnx/model_file.h"
#include "graph/op_registry.h"
#include "graph/passes/pipeline.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using onnx::TensorProto;

// A model under construction.
class OnnxImport : public testing::Test {
 protected:
  OnnxImport() {
    model_.set_ir_version(8);
    auto* opset = model_.add_opset_import();
    opset->set_version(17);
    model_.mutable_graph()->set_name("g");
    folder_ = fs::temp_directory_path() / ("fettle_import_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "model");
  }
  ~OnnxImport() override { fs::remove_all(folder_); }

  void input(const std::string& name, std::vector<int64_t> dims, int type = TensorProto::FLOAT) {
    auto* value = model_.mutable_graph()->add_input();
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(d);
  }
  onnx::NodeProto* node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    auto* n = model_.mutable_graph()->add_node();
    n->set_op_type(op);
    n->set_name("the_" + op);
    for (const auto& name : inputs) n->add_input(name);
    for (const auto& name : outputs) n->add_output(name);
    return n;
  }
  void output(const std::string& name) { model_.mutable_graph()->add_output()->set_name(name); }
  TensorProto* initializer(const std::string& name, std::vector<int64_t> dims, int type = TensorProto::FLOAT) {
    auto* t = model_.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(type);
    for (const int64_t d : dims) t->add_dims(d);
    return t;
  }
  static void ints_attribute(onnx::NodeProto* n, const std::string& name, std::vector<int64_t> values) {
    auto* a = n->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INTS);
    for (const int64_t v : values) a->add_ints(v);
  }
  void external(TensorProto* t, const std::string& location, const std::string& offset = "0") {
    t->set_data_location(TensorProto::EXTERNAL);
    const auto add = [&](const char* key, const std::string& value) {
      auto* entry = t->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    add("offset", offset);
  }
  std::string write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  Result<Graph> import() {
    const std::string bytes = model_.SerializeAsString();
    return import_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                             (folder_ / "model").string());
  }
  ErrorCode error() {
    const auto graph = import();
    return graph ? ErrorCode::kNone : graph.error().code;
  }
  void relu_model() {
    input("x", {2, 3});
    node("Relu", {"x"}, {"y"});
    output("y");
  }

  onnx::ModelProto model_;
  fs::path folder_;
};

TEST_F(OnnxImport, ReadsAFile) {
  relu_model();
  const auto graph = import_onnx(write("ok.onnx", model_.SerializeAsString()));
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(graph->inputs()[0]->name, "x");
  EXPECT_EQ(graph->outputs()[0].name, "y");
  EXPECT_EQ(graph->nodes()[0]->provenance, (Provenance{{"Relu", "the_Relu"}}));
}

TEST_F(OnnxImport, FilesThatAreNoModels) {
  relu_model();
  EXPECT_EQ(import_onnx((folder_ / "none.onnx").string()).error().code, ErrorCode::E601);
  EXPECT_EQ(import_onnx(folder_.string()).error().code, ErrorCode::E601);
  EXPECT_EQ(import_onnx(write("empty.onnx", "")).error().code, ErrorCode::E602);
  EXPECT_EQ(import_onnx(write("text.onnx", "this is no model\n")).error().code, ErrorCode::E602);
  const std::string bytes = model_.SerializeAsString();
  for (size_t length = 1; length < bytes.size(); ++length)
    EXPECT_FALSE(import_onnx(write("cut.onnx", bytes.substr(0, length)))) << length;
}

TEST_F(OnnxImport, UnsupportedOperatorsAreListedAtOnce) {
  relu_model();
  node("Frobnicate", {"y"}, {"a"});
  node("Perplex", {"y"}, {"b"});
  node("FusedThing", {"y"}, {"c"})->set_domain("com.example");
  const auto graph = import();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::E603);
  for (const char* name :
       {"Frobnicate (the_Frobnicate)", "Perplex (the_Perplex)", "com.example.FusedThing (the_FusedThing)"})
    EXPECT_NE(graph.error().message.find(name), std::string::npos) << graph.error().message;
}

// By domain and type: the same type of another domain is another operator.
TEST_F(OnnxImport, OperatorsOfOnesOwn) {
  const auto type = [](const Node& node) { return Result<std::vector<TensorType>>(std::vector{*node.input(0)->type}); };
  const auto mean = [](const Node&, std::span<const te::Tensor> in) {
    return Result<std::vector<te::Tensor>>(
        std::vector{te::compute(in[0].shape(), [&](const auto& i) { return te::Body(in[0](i) + in[0](i)); }, "twice")});
  };
  relu_model();
  node("Relu", {"y"}, {"z"})->set_domain("com.example");
  EXPECT_EQ(error(), ErrorCode::E603);
  ASSERT_TRUE(
      register_op({.name = "com.example.Relu", .fusion = FusionKind::kElementwise, .infer = type, .compute = mean}));
  output("z");
  const auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(graph->nodes()[0]->op, find_op("Relu"));
  EXPECT_EQ(graph->nodes()[1]->op, find_op("com.example.Relu"));
  EXPECT_EQ(graph->nodes()[1]->provenance, (Provenance{{"com.example.Relu", "the_Relu"}}));
  model_.mutable_graph()->mutable_node(1)->set_domain("com.other");
  EXPECT_EQ(error(), ErrorCode::E603);
  model_.mutable_graph()->mutable_node(1)->set_domain("com.example");
  model_.mutable_graph()->mutable_node(1)->set_op_type("Constant");  // not ONNX's
  EXPECT_EQ(error(), ErrorCode::E603);
}

TEST_F(OnnxImport, Opsets) {
  relu_model();
  model_.mutable_opset_import(0)->set_version(6);
  EXPECT_EQ(error(), ErrorCode::E609);
  model_.mutable_opset_import(0)->set_version(int64_t{1} << 40);
  EXPECT_EQ(error(), ErrorCode::E609);
  model_.mutable_opset_import(0)->set_version(kMinOpset);
  EXPECT_EQ(error(), ErrorCode::kNone);
  model_.mutable_opset_import(0)->set_version(kMaxOpset);
  EXPECT_EQ(error(), ErrorCode::kNone);
}

TEST_F(OnnxImport, NamesThatNothingMakesOrThatAreMadeTwice) {
  relu_model();
  auto* relu = node("Relu", {"nowhere"}, {"z"});
  EXPECT_EQ(error(), ErrorCode::E605);
  relu->set_input(0, "x");
  relu->set_output(0, "y");
  EXPECT_EQ(error(), ErrorCode::E605);
  relu->set_output(0, "z");
  output("missing");
  EXPECT_EQ(error(), ErrorCode::E605);
}

TEST_F(OnnxImport, NumbersOfInputs) {
  input("x", {2});
  node("Add", {"x"}, {"y"});
  output("y");
  EXPECT_EQ(error(), ErrorCode::E606);
}

TEST_F(OnnxImport, InitializersOfWrongLengthAndSize) {
  relu_model();
  auto* t = initializer("w", {4});
  t->set_raw_data(std::string(15, '\0'));
  EXPECT_EQ(error(), ErrorCode::E606);
  t->clear_raw_data();
  t->add_float_data(1);
  EXPECT_EQ(error(), ErrorCode::E606);
  t->set_dims(0, int64_t{1} << 60);
  EXPECT_EQ(error(), ErrorCode::E608);
  t->set_dims(0, -1);
  EXPECT_EQ(error(), ErrorCode::E608);
  t->set_dims(0, 1);
  EXPECT_EQ(error(), ErrorCode::kNone);
  t->set_data_type(TensorProto::STRING);  // of which it has none
  EXPECT_EQ(error(), ErrorCode::E606);
  t->set_data_type(TensorProto::COMPLEX64);
  EXPECT_EQ(error(), ErrorCode::E603);
}

TEST_F(OnnxImport, ExternalDataStayBeneathTheModel) {
  input("x", {4});
  node("Add", {"x", "w"}, {"y"});
  output("y");
  auto* t = initializer("w", {4});
  std::string floats(16, '\0');
  const float values[4] = {1, 2, 3, 4};
  std::memcpy(floats.data(), values, 16);
  write("model/w.bin", "pad!" + floats);
  write("outside.bin", floats);
  fs::create_symlink(folder_ / "outside.bin", folder_ / "model/link.bin");

  external(t, "w.bin", "4");
  const auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(graph->find_value("w")->constant->at(3), 4);
  const auto with = [&](const std::string& location, const std::string& offset) {
    t->clear_external_data();
    external(t, location, offset);
    return error();
  };
  EXPECT_EQ(with("w.bin", "8"), ErrorCode::E607);  // too short
  EXPECT_EQ(with("w.bin", "99999999999999999999"), ErrorCode::E607);
  EXPECT_EQ(with("w.bin", "-4"), ErrorCode::E607);
  EXPECT_EQ(with("../outside.bin", "0"), ErrorCode::E607);
  EXPECT_EQ(with("link.bin", "0"), ErrorCode::E607);
  EXPECT_EQ(with((folder_ / "outside.bin").string(), "0"), ErrorCode::E607);
  EXPECT_EQ(with("none.bin", "0"), ErrorCode::E607);
  EXPECT_EQ(with("", "0"), ErrorCode::E607);
}

TEST_F(OnnxImport, UnknownDimsAreSymbols) {
  relu_model();
  auto* shape = model_.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_param("N");
  shape->mutable_dim(1)->set_dim_value(-1);
  auto graph = import();
  ASSERT_TRUE(graph);
  EXPECT_EQ(to_string(graph->inputs()[0]->shape()), "[N, x.1]");
  ASSERT_TRUE(optimize(*graph));
  EXPECT_TRUE(require_sizes(*graph));
  ASSERT_TRUE(bind_shapes(*graph, {{"x", {2, 3}}}));
  ASSERT_TRUE(optimize(*graph));
  EXPECT_TRUE(graph->outputs()[0].value->is_static());
}

TEST_F(OnnxImport, ABranchWithAKnownConditionIsTaken) {
  input("x", {2});
  initializer("condition", {}, TensorProto::BOOL)->add_int32_data(1);
  auto* branch = node("If", {"condition"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* a = branch->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::GRAPH);
    auto* inner = a->mutable_g()->add_node();
    inner->set_op_type(a->name() == "then_branch" ? "Relu" : "Exp");
    inner->add_input("x");
    inner->add_output(std::string(name) + "_out");
    a->mutable_g()->add_output()->set_name(std::string(name) + "_out");
  }
  output("y");
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(histogram(*graph), "Exp 1, If 1, Relu 1");
  ASSERT_TRUE(optimize(*graph));
  EXPECT_EQ(histogram(*graph), "Relu 1");
  // A condition that is no truth value.
  model_.mutable_graph()->mutable_node(0)->set_input(0, "x");
  EXPECT_EQ(error(), ErrorCode::E606);
}

TEST_F(OnnxImport, NodesAreCheckedAgainstOnnxsTable) {
  const auto message = [&] { return import().error().message; };
  input("x", {1, 2, 8, 8});
  input("k", {2, 2, 3, 3});
  auto* conv = node("Conv", {"x", "k"}, {"y"});
  output("y");
  ints_attribute(conv, "stride", {1, 1});
  EXPECT_EQ(message(), "Conv has no attribute \"stride\"; is \"strides\" meant?");
  conv->mutable_attribute(0)->set_name("group");
  EXPECT_EQ(message(), "the attribute \"group\" of Conv is of kind int, not ints");
  conv->clear_attribute();
  conv->add_input("");
  EXPECT_EQ(error(), ErrorCode::kNone);  // a bias that is left out
  conv->add_input("x");
  EXPECT_EQ(message(), "Conv has 4 inputs instead of 2 to 3");
  conv->mutable_input()->DeleteSubrange(1, 3);
  conv->add_input("");
  EXPECT_EQ(message(), "Conv lacks its input \"W\"");
  conv->set_op_type("Concat");
  conv->mutable_input()->RemoveLast();
  EXPECT_EQ(message(), "Concat lacks the attribute \"axis\"");
  conv->set_op_type("Gelu");
  EXPECT_EQ(message(), "Gelu comes with opset 20, and the model is of opset 17");
  input("i", {3}, TensorProto::INT32);
  conv->set_op_type("Sqrt");
  conv->set_input(0, "i");
  EXPECT_EQ(message(),
            "Sqrt of this opset takes no tensor(int32) as \"X\"; it takes tensor(bfloat16), tensor(double), "
            "tensor(float), tensor(float16)");
  conv->set_op_type("Add");
  conv->add_input("x");
  EXPECT_EQ(error(), ErrorCode::E605);
}

TEST_F(OnnxImport, WhatTheFileDeclaresMustBeSo) {
  relu_model();
  auto* type = model_.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  type->set_elem_type(TensorProto::DOUBLE);
  EXPECT_EQ(error(), ErrorCode::E605);
  type->set_elem_type(TensorProto::FLOAT);
  const auto optimized = [&] {
    auto graph = import();
    return graph ? optimize(*graph) : Result<>(fail(std::move(graph.error())));
  };
  EXPECT_TRUE(optimized());
  type->mutable_shape();
  EXPECT_EQ(optimized().error().code, ErrorCode::E605);
  type->mutable_shape()->add_dim()->set_dim_param("anything");
  type->mutable_shape()->add_dim()->set_dim_value(3);
  EXPECT_TRUE(optimized());
  type->mutable_shape()->mutable_dim(1)->set_dim_value(4);
  EXPECT_EQ(optimized().error().code, ErrorCode::E605);
}

TEST_F(OnnxImport, LimitsAreNamed) {
  relu_model();
  const std::string bytes = model_.SerializeAsString();
  for (const LimitDef& def : limit_defs()) {
    if (def.name != "nodes" && def.name != "rank" && def.name != "inputs" && def.name != "outputs" &&
        def.name != "string-bytes")
      continue;
    Limits limits;
    limits.*def.value = 0;
    const auto graph =
        import_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "", "model", {}, limits);
    ASSERT_FALSE(graph) << def.name;
    EXPECT_EQ(graph.error().code, ErrorCode::E608);
    EXPECT_NE(graph.error().message.find("--limit " + std::string(def.name) + "=N"), std::string::npos)
        << graph.error().message;
  }
}

TEST_F(OnnxImport, FilesBeneathAFolder) {
  fs::create_directories(folder_ / "model/inner");
  write("model/inner/w.bin", "data");
  write("outside.bin", "data");
  fs::create_symlink("../outside.bin", folder_ / "model/out");
  fs::create_directory_symlink(folder_, folder_ / "model/up");
  const int folder = ::open((folder_ / "model").c_str(), O_PATH | O_DIRECTORY);
  for (const auto how : {onnx_reader::Beneath::kKernel, onnx_reader::Beneath::kComponent}) {
    const auto opened = onnx_reader::open_beneath(folder, "inner/w.bin", how);
    ASSERT_TRUE(opened) << opened.error().to_string();
    ::close(*opened);
    for (const std::string& bad : {std::string("../outside.bin"), std::string("inner/../../outside.bin"),
                                   std::string("out"), std::string("up/outside.bin"), std::string("inner/w.bin/x"),
                                   std::string("/etc/passwd"), std::string(""), std::string("inner/w.bin\0", 12)})
      EXPECT_EQ(onnx_reader::open_beneath(folder, bad, how).error().code, ErrorCode::E607) << bad;
  }
  ::close(folder);
}

TEST_F(OnnxImport, OlderFormsMeanTheSame) {
  model_.mutable_opset_import(0)->set_version(11);
  input("x", {2, 3, 1, 4});
  auto* squeeze = node("Squeeze", {"x"}, {"a"});
  ints_attribute(squeeze, "axes", {2});
  node("Softmax", {"a"}, {"y"});  // before 13: over the last two dims together
  output("y");
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_TRUE(optimize(*graph));
  const auto out = evaluate(*graph, {{"x", *filled(0, kF32, {2, 3, 1, 4})}}, interpreter_executor());
  ASSERT_TRUE(out) << out.error().to_string();
  EXPECT_EQ(out->at("y").shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_FLOAT_EQ(static_cast<float>(out->at("y").at(0)), 1.0f / 12);
}

// Damaged models are refused or read; nothing else may happen.
TEST_F(OnnxImport, DamagedModels) {
  input("x", {1, 4, 6, 6});
  auto* w = initializer("w", {4, 4, 3, 3});
  for (int i = 0; i < 144; ++i) w->add_float_data(0.1f * static_cast<float>(i));
  auto* conv = node("Conv", {"x", "w"}, {"a"});
  ints_attribute(conv, "pads", {1, 1, 1, 1});
  ints_attribute(conv, "strides", {2, 2});
  auto* shape = initializer("shape", {2}, TensorProto::INT64);
  shape->add_int64_data(4);
  shape->add_int64_data(-1);
  node("Reshape", {"a", "shape"}, {"b"});
  auto* slice = initializer("bounds", {2}, TensorProto::INT64);
  slice->add_int64_data(1);
  slice->add_int64_data(3);
  node("Slice", {"b", "bounds", "shape"}, {"c"});
  node("ReduceMean", {"b"}, {"d"});
  output("b");
  output("d");
  const std::string good = model_.SerializeAsString();
  RandomStream random{7};
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (uint64_t k = 0; k <= random.below(3); ++k)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    auto graph = import_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, folder_.string());
    if (!graph) continue;
    ++read;
    PassContext context;
    context.limits.folded_bytes = 1 << 16;
    (void)optimize(*graph, context);
  }
  EXPECT_GT(read, 0);
}

// X.data, X.dims: what stands for the sequence X.
TEST_F(OnnxImport, ASequenceIsItsTensors) {
  auto* value = model_.mutable_graph()->add_input();
  value->set_name("x");
  auto* elem = value->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
  elem->set_elem_type(TensorProto::FLOAT);
  for (int d = 0; d < 2; ++d) elem->mutable_shape()->add_dim();
  node("SequenceInsert", {"x", "t"}, {"y"});
  input("t", {2, 3});
  auto* result = model_.mutable_graph()->add_output();
  *result = *value;
  result->set_name("y");
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_EQ(graph->inputs().size(), 3u);
  EXPECT_EQ(graph->inputs()[0]->name, "x.data");
  EXPECT_EQ(graph->inputs()[1]->name, "x.dims");
  EXPECT_EQ(graph->inputs()[1]->type->to_string(), "i64[x.n, 2]");
  ASSERT_EQ(graph->structures().size(), 2u);
  EXPECT_EQ(graph->structures()[0].type, "seq(tensor(float))");
  EXPECT_TRUE(graph->structures()[1].is_output);
  EXPECT_EQ(graph->outputs()[static_cast<size_t>(graph->structures()[1].first)].name, "y.data");
  ASSERT_TRUE(optimize(*graph));
  EXPECT_EQ(graph->outputs()[1].value->type->to_string(), "i64[x.n + 1, 2]");
}

TEST_F(OnnxImport, TensorsAndStructuresAreNotMistakenForEachOther) {
  input("a", {2});
  node("SequenceConstruct", {"a"}, {"s"});
  auto* wrong = node("Relu", {"s"}, {"y"});
  output("y");
  auto refused = import();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E605);
  EXPECT_NE(refused.error().message.find("\"s\" is a sequence"), std::string::npos) << refused.error().to_string();
  wrong->set_op_type("SequenceLength");
  wrong->set_input(0, "a");
  EXPECT_EQ(error(), ErrorCode::E605);
  wrong->set_input(0, "s");
  EXPECT_EQ(error(), ErrorCode::kNone);
  wrong->set_output(0, "s");
  EXPECT_EQ(error(), ErrorCode::E605);  // made twice
}

}  // namespace
}  // namespace fettle
