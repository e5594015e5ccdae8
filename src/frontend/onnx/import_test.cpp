#include "frontend/onnx/import.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

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
  const auto lacks = [](const std::string& file) { return lacks_graph(std::as_bytes(std::span(file))); };
  EXPECT_TRUE(lacks("") && lacks(onnx::ModelProto().SerializeAsString()) && lacks("\x08\x07"));
  EXPECT_FALSE(lacks(bytes) || lacks("this is no model\n") || lacks(bytes.substr(0, bytes.size() - 1)));
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
  model_.mutable_opset_import(0)->set_version(0);
  EXPECT_EQ(error(), ErrorCode::E609);
  model_.mutable_opset_import(0)->set_version(int64_t{1} << 40);
  EXPECT_EQ(error(), ErrorCode::E609);
  model_.mutable_opset_import(0)->set_version(kMinOpset);
  EXPECT_EQ(error(), ErrorCode::kNone);
  model_.mutable_opset_import(0)->set_version(kMaxOpset);
  EXPECT_EQ(error(), ErrorCode::kNone);
  model_.clear_opset_import();
  EXPECT_EQ(error(), ErrorCode::E609);
  model_.set_ir_version(2);  // when there was one opset
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

// --- functions of the model's own

class OnnxFunctions : public OnnxImport {
 protected:
  OnnxFunctions() {
    auto* own = model_.add_opset_import();
    own->set_domain("own");
    own->set_version(1);
  }
  onnx::FunctionProto* function(const std::string& name, std::vector<std::string> inputs,
                                std::vector<std::string> outputs, int opset = 17) {
    auto* f = model_.add_functions();
    f->set_domain("own");
    f->set_name(name);
    for (const auto& input : inputs) f->add_input(input);
    for (const auto& output : outputs) f->add_output(output);
    f->add_opset_import()->set_version(opset);
    return f;
  }
  static onnx::NodeProto* in(onnx::FunctionProto* f, const std::string& op, std::vector<std::string> inputs,
                             std::vector<std::string> outputs, const std::string& domain = "") {
    auto* n = f->add_node();
    n->set_op_type(op);
    n->set_domain(domain);
    n->set_name("inner_" + op);
    for (const auto& name : inputs) n->add_input(name);
    for (const auto& name : outputs) n->add_output(name);
    return n;
  }
  onnx::NodeProto* call(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    auto* n = node(name, std::move(inputs), std::move(outputs));
    n->set_domain("own");
    n->set_name("call_" + n->output(0));
    return n;
  }
  static void reference(onnx::NodeProto* n, const std::string& name, const std::string& of,
                        onnx::AttributeProto::AttributeType type = onnx::AttributeProto::FLOAT) {
    auto* a = n->add_attribute();
    a->set_name(name);
    a->set_ref_attr_name(of);
    a->set_type(type);
  }
  template <class Proto>
  static void number(Proto* attribute, const std::string& name, float value) {
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }
  // The first element of an output, of x = [value, value].
  double first(double value, const std::string& name = "y") {
    auto graph = import();
    EXPECT_TRUE(graph) << graph.error().to_string();
    if (!graph) return NAN;
    const auto done = optimize(*graph);
    EXPECT_TRUE(done) << done.error().to_string();
    const auto out = evaluate(*graph, {{"x", *filled(value, kF32, {2})}}, interpreter_executor());
    EXPECT_TRUE(out) << out.error().to_string();
    return out ? out->at(name).at(0) : NAN;
  }
  std::string message() {
    const auto graph = import();
    return graph ? "" : graph.error().to_string();
  }
};

TEST_F(OnnxFunctions, AreInlinedWithTheirAttributes) {
  input("x", {2});
  auto* f = function("Leak", {"a"}, {"b"});
  f->add_attribute("slope");
  number(f->add_attribute_proto(), "shift", 10);
  reference(in(f, "LeakyRelu", {"a"}, {"leaked"}), "alpha", "slope");
  reference(in(f, "Constant", {}, {"c"}), "value_float", "shift");
  in(f, "Add", {"leaked", "c"}, {"b"});
  auto* once = call("Leak", {"x"}, {"u"});
  number(once->add_attribute(), "slope", 0.5f);
  auto* again = call("Leak", {"u"}, {"y"});  // its slope is the operator's own, 0.01
  number(again->add_attribute(), "shift", -100);
  output("y");
  EXPECT_NEAR(first(-4), 8 - 100, 1e-4);
  EXPECT_NEAR(first(-40), -0.1 - 100, 1e-4);
  const auto graph = import();
  std::set<std::string> origins;
  for (const Node* node : graph->nodes()) origins.insert(to_text(node->provenance));
  EXPECT_EQ(origins, (std::set<std::string>{"LeakyRelu call_u/inner_LeakyRelu", "Add call_u/inner_Add",
                                            "LeakyRelu call_y/inner_LeakyRelu", "Add call_y/inner_Add"}));
}

// Its names are its own: neither does it see those of the graph around, nor do its own meet those.
TEST_F(OnnxFunctions, NamesAreTheirOwn) {
  input("x", {2});
  auto* f = function("Twice", {"x"}, {"y"});
  in(f, "Add", {"x", "x"}, {"t"});
  in(f, "Identity", {"t"}, {"y"});
  node("Neg", {"x"}, {"t"});
  call("Twice", {"t"}, {"u"});
  call("Twice", {"u"}, {"y"});
  output("y");
  EXPECT_EQ(first(3), -12);
  in(f, "Neg", {"u"}, {"v"});
  EXPECT_NE(message().find("nothing makes the input \"u\""), std::string::npos) << message();
}

TEST_F(OnnxFunctions, HaveOpsetsOfTheirOwn) {
  input("x", {2});
  auto* f = function("Sum", {"a"}, {"b"}, 11);
  auto* reduce = in(f, "ReduceSum", {"a"}, {"s"});
  ints_attribute(reduce, "axes", {0});
  in(f, "Unsqueeze", {"s"}, {"t"});
  ints_attribute(f->mutable_node(1), "axes", {0, 2});
  in(f, "Softmax", {"t"}, {"u"});  // of opset 11: [1, 1, 1], from axis 1 on
  in(f, "Flatten", {"u"}, {"b"});
  call("Sum", {"x"}, {"y"});
  output("y");
  EXPECT_EQ(first(3), 1);
  f->mutable_opset_import(0)->set_version(kMaxOpset + 1);
  EXPECT_EQ(error(), ErrorCode::E609);
}

TEST_F(OnnxFunctions, MayLeaveInputsOut) {
  input("x", {2});
  auto* f = function("Bound", {"a", "low", "high"}, {"b"});
  in(f, "Clip", {"a", "low", "high"}, {"b"});
  auto* zero = initializer("zero", {});
  zero->add_float_data(0);
  call("Bound", {"x", "", "zero"}, {"u"});
  call("Bound", {"u"}, {"y"});
  output("y");
  EXPECT_EQ(first(3), 0);
  EXPECT_EQ(first(-3), -3);
}

// A function's branch sees the function's values, also where the call stands in a branch itself.
TEST_F(OnnxFunctions, InBodiesAndWithBodies) {
  input("x", {2});
  auto* f = function("Choose", {"a", "condition"}, {"b"});
  in(f, "Neg", {"a"}, {"negative"});
  const auto branch = [](onnx::NodeProto* n, const std::string& name, const std::string& op, const std::string& input,
                         const std::string& domain = "", const std::string& second = "") {
    auto* a = n->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::GRAPH);
    a->mutable_g()->set_name(name);
    auto* inner = a->mutable_g()->add_node();
    inner->set_op_type(op);
    inner->set_domain(domain);
    inner->add_input(input);
    if (!second.empty()) inner->add_input(second);
    inner->add_output("result");
    a->mutable_g()->add_output()->set_name("result");
  };
  auto* choice = in(f, "If", {"condition"}, {"b"});
  branch(choice, "then_branch", "Identity", "negative");
  branch(choice, "else_branch", "Identity", "a");
  input("c", {}, TensorProto::BOOL);
  node("Exp", {"x"}, {"negative"});  // another than the function's
  auto* outer = node("If", {"c"}, {"y"});
  branch(outer, "then_branch", "Choose", "x", "own", "c");
  branch(outer, "else_branch", "Identity", "negative");
  output("y");
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  const auto done = optimize(*graph);
  ASSERT_TRUE(done) << done.error().to_string();
  for (const bool c : {true, false}) {
    const auto out =
        evaluate(*graph, {{"x", *filled(2, kF32, {2})}, {"c", *filled(c, kBool, {})}}, interpreter_executor());
    ASSERT_TRUE(out) << out.error().to_string();
    EXPECT_NEAR(out->at("y").at(0), c ? -2 : std::exp(2.0), 1e-5);
  }
}

TEST_F(OnnxFunctions, OperatorsOfOnnxAreNone) {
  input("x", {2});
  auto* f = function("Relu", {"a"}, {"b"});
  in(f, "Neg", {"a"}, {"b"});
  auto* standard = function("Abs", {"a"}, {"b"});
  standard->set_domain("");
  in(standard, "Neg", {"a"}, {"b"});
  call("Relu", {"x"}, {"u"});
  node("Abs", {"u"}, {"y"});
  output("y");
  EXPECT_EQ(first(3), 3);
  EXPECT_EQ(first(3, "y"), 3);
  model_.mutable_graph()->mutable_output(0)->set_name("u");
  EXPECT_EQ(first(3, "u"), -3);
}

TEST_F(OnnxFunctions, Overloads) {
  input("x", {2});
  in(function("Change", {"a"}, {"b"}), "Neg", {"a"}, {"b"});
  auto* other = function("Change", {"a"}, {"b"});
  in(other, "Exp", {"a"}, {"b"});
  EXPECT_EQ(error(), ErrorCode::E605);  // two of one name
  other->set_overload("exp");
  call("Change", {"x"}, {"u"});
  call("Change", {"u"}, {"y"})->set_overload("exp");
  output("y");
  EXPECT_NEAR(first(1), std::exp(-1.0), 1e-6);
}

TEST_F(OnnxFunctions, WrongCallsAreRefused) {
  input("x", {2});
  auto* f = function("Same", {"a"}, {"b"});
  in(f, "Identity", {"a"}, {"b"});
  auto* c = call("Same", {"x"}, {"y"});
  output("y");
  EXPECT_EQ(error(), ErrorCode::kNone);
  c->add_input("x");
  EXPECT_EQ(error(), ErrorCode::E605);
  c->mutable_input()->RemoveLast();
  number(c->add_attribute(), "unknown", 1);
  EXPECT_NE(message().find("own.Same has no attribute \"unknown\""), std::string::npos) << message();
  c->mutable_attribute()->RemoveLast();
  f->mutable_node(0)->set_op_type("NoSuch");
  EXPECT_NE(message().find("NoSuch (Same/inner_Identity)"), std::string::npos) << message();
  f->mutable_node(0)->set_op_type("LeakyRelu");
  f->add_attribute("slope");
  auto* a = f->mutable_node(0)->add_attribute();
  a->set_name("alpha");
  a->set_ref_attr_name("slope");
  a->set_type(onnx::AttributeProto::INT);
  number(c->add_attribute(), "slope", 1);
  EXPECT_EQ(error(), ErrorCode::E606);  // another type
  f->mutable_node(0)->mutable_attribute()->Clear();
  reference(model_.mutable_graph()->add_node(), "alpha", "slope");
  auto* stray = model_.mutable_graph()->mutable_node(1);
  stray->set_op_type("LeakyRelu");
  stray->add_input("x");
  stray->add_output("z");
  EXPECT_EQ(error(), ErrorCode::E606);  // no function around
  f->mutable_output()->Clear();
  f->add_output("missing");
  EXPECT_EQ(error(), ErrorCode::E605);
}

TEST_F(OnnxFunctions, RecursionAndExplosionAreRefused) {
  input("x", {2});
  constexpr int kLevels = 30;
  for (int level = 0; level < kLevels; ++level) {
    auto* f = function("F" + std::to_string(level), {"a"}, {"b"});
    const std::string next = level + 1 < kLevels ? "F" + std::to_string(level + 1) : "Neg";
    in(f, next, {"a"}, {"c"}, level + 1 < kLevels ? "own" : "");
    in(f, next, {"c"}, {"b"}, level + 1 < kLevels ? "own" : "");
  }
  call("F0", {"x"}, {"y"});
  output("y");
  EXPECT_EQ(error(), ErrorCode::E608);
  model_.mutable_functions(kLevels - 1)->mutable_node(0)->set_op_type("F0");
  model_.mutable_functions(kLevels - 1)->mutable_node(0)->set_domain("own");
  EXPECT_NE(message().find("own.F0 calls itself"), std::string::npos) << message();
  model_.clear_functions();
  for (int level = 99; level >= 0; --level)
    in(function("F" + std::to_string(level), {"a"}, {"b"}), "F" + std::to_string(level + 1), {"a"}, {"b"}, "own");
  in(function("F100", {"a"}, {"b"}), "Neg", {"a"}, {"b"});
  EXPECT_NE(message().find("more than 64 deep"), std::string::npos) << message();
  // Also where each is met after those that it calls.
  model_.mutable_graph()->clear_node();
  for (int level = 99; level >= 0; --level) call("F" + std::to_string(level), {"x"}, {"y" + std::to_string(level)});
  EXPECT_NE(message().find("more than 64 deep"), std::string::npos) << message();
}

// --- what tensors a file may have

TEST_F(OnnxImport, SparseTensorsBecomeDense) {
  input("x", {2, 3});
  auto* sparse = model_.mutable_graph()->add_sparse_initializer();
  sparse->add_dims(2);
  sparse->add_dims(3);
  auto* values = sparse->mutable_values();
  values->set_name("w");
  values->set_data_type(TensorProto::FLOAT);
  values->add_dims(2);
  values->add_float_data(5);
  values->add_float_data(7);
  auto* indices = sparse->mutable_indices();
  indices->set_data_type(TensorProto::INT64);
  indices->add_dims(2);
  for (const int64_t i : {1, 5}) indices->add_int64_data(i);
  auto* constant = node("Constant", {}, {"c"});
  auto* a = constant->add_attribute();
  a->set_name("sparse_value");
  a->set_type(onnx::AttributeProto::SPARSE_TENSOR);
  *a->mutable_sparse_tensor() = *sparse;
  auto* pairs = a->mutable_sparse_tensor()->mutable_indices();
  pairs->clear_int64_data();
  pairs->add_dims(2);
  for (const int64_t i : {0, 1, 1, 2}) pairs->add_int64_data(i);
  node("Add", {"x", "w"}, {"s"});
  node("Add", {"s", "c"}, {"y"});
  output("y");
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_TRUE(optimize(*graph));
  const auto out = evaluate(*graph, {{"x", *filled(1, kF32, {2, 3})}}, interpreter_executor());
  EXPECT_EQ(to_doubles(out->at("y")), (std::vector<double>{1, 11, 1, 1, 1, 15}));

  indices->set_int64_data(1, 6);
  EXPECT_EQ(error(), ErrorCode::E606);
  indices->set_int64_data(1, 1);  // twice
  EXPECT_EQ(error(), ErrorCode::E606);
  indices->set_int64_data(1, 5);
  indices->set_dims(0, 1);
  EXPECT_EQ(error(), ErrorCode::E606);
  indices->set_dims(0, 2);
  sparse->set_dims(0, int64_t{1} << 33);
  EXPECT_EQ(error(), ErrorCode::E608);
}

TEST_F(OnnxImport, AttributesOfKindsThatAnOperatorDoesNotTake) {
  relu_model();
  auto* n = model_.mutable_graph()->mutable_node(0);
  n->set_op_type("Gelu");
  n->set_domain("com.microsoft");
  auto* a = n->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  a->mutable_g()->set_name("g");
  const auto graph = import();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::E603);
  EXPECT_NE(graph.error().to_string().find("\"body\" is graph, which com.microsoft.Gelu does not take"),
            std::string::npos)
      << graph.error().to_string();
}

// A graph that an operator takes is its body, called as the attribute; it reads the graph around.
TEST_F(OnnxImport, GraphsOfOperators) {
  input("x", {2, 3});
  input("k", {});
  auto* n = node("Reduce", {"x", "x0"}, {"y"});
  n->set_domain("fettle");
  output("y");
  auto* first = model_.mutable_graph()->add_initializer();
  first->set_name("x0");
  first->set_data_type(onnx::TensorProto::FLOAT);
  first->add_float_data(10);
  auto* axes = n->add_attribute();
  axes->set_name("axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(0);
  auto* a = n->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  auto* body = a->mutable_g();
  body->set_name("anything");
  body->add_input()->set_name("s");
  body->add_input()->set_name("e");
  auto* sum = body->add_node();
  sum->set_op_type("Add");
  sum->add_input("s");
  sum->add_input("e");
  sum->add_output("t");
  auto* last = body->add_node();
  last->set_op_type("Sub");
  last->add_input("t");
  last->add_input("k");
  last->add_output("r");
  body->add_output()->set_name("r");
  model_.mutable_graph()->mutable_output(0)->clear_type();
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_EQ(graph->nodes().size(), 1u);
  ASSERT_EQ(graph->nodes()[0]->bodies.size(), 1u);
  EXPECT_EQ(graph->nodes()[0]->bodies[0]->name(), "body");
  EXPECT_EQ(graph->nodes()[0]->inputs.size(), 3u);
  const auto done = optimize(*graph);
  ASSERT_TRUE(done) << done.error().to_string();
}

// --- opsets before 7

class EarlyOpsets : public OnnxImport {
 protected:
  std::vector<double> result(const std::map<std::string, ConstantTensor>& inputs, int opset) {
    model_.mutable_opset_import(0)->set_version(opset);
    auto graph = import();
    EXPECT_TRUE(graph) << graph.error().to_string();
    if (!graph) return {};
    const auto done = optimize(*graph);
    EXPECT_TRUE(done) << done.error().to_string();
    const auto out = evaluate(*graph, inputs, interpreter_executor());
    EXPECT_TRUE(out) << out.error().to_string();
    return out ? to_doubles(out->begin()->second) : std::vector<double>{};
  }
  static ConstantTensor tensor(std::vector<double> values, std::vector<int64_t> shape) {
    return *to_tensor(values, kF32, std::move(shape));
  }
  static void int_attribute(onnx::NodeProto* n, const std::string& name, int64_t value) {
    auto* a = n->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(value);
  }
};

TEST_F(EarlyOpsets, BroadcastingAlongAnAxis) {
  input("x", {2, 3, 2});
  input("b", {3});
  auto* add = node("Add", {"x", "b"}, {"y"});
  int_attribute(add, "broadcast", 1);
  int_attribute(add, "axis", 1);
  output("y");
  EXPECT_EQ(result({{"x", *filled(1, kF32, {2, 3, 2})}, {"b", tensor({10, 20, 30}, {3})}}, 6),
            (std::vector<double>{11, 11, 21, 21, 31, 31, 11, 11, 21, 21, 31, 31}));
}

TEST_F(EarlyOpsets, SlopesOfChannels) {
  input("x", {1, 2, 2});
  input("slope", {2});
  node("PRelu", {"x", "slope"}, {"y"});
  output("y");
  EXPECT_EQ(result({{"x", *filled(-1, kF32, {1, 2, 2})}, {"slope", tensor({2, 3}, {2})}}, 6),
            (std::vector<double>{-2, -2, -3, -3}));
}

TEST_F(EarlyOpsets, TypesByName) {
  input("x", {2});
  auto* cast = node("Cast", {"x"}, {"y"});
  auto* a = cast->add_attribute();
  a->set_name("to");
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s("INT32");
  output("y");
  EXPECT_EQ(result({{"x", tensor({1.5, -2.5}, {2})}}, 1), (std::vector<double>{1, -2}));
  a->set_s("NUMBER");
  EXPECT_EQ(error(), ErrorCode::E606);
}

TEST_F(EarlyOpsets, TilesPadsAndScales) {
  input("x", {1, 1, 1, 2});
  for (const auto& [name, value] : {std::pair("tiles", 2.0f), std::pair("axis", 3.0f)})
    initializer(name, {1}, TensorProto::FLOAT)->add_float_data(value);
  node("Tile", {"x", "tiles", "axis"}, {"t"});
  ints_attribute(node("Pad", {"t"}, {"p"}), "paddings", {0, 0, 0, 1, 0, 0, 0, 0});
  auto* up = node("Upsample", {"p"}, {"y"});
  for (const auto& [name, value] : {std::pair("height_scale", 2.0f), std::pair("width_scale", 1.0f)}) {
    auto* a = up->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::FLOAT);
    a->set_f(value);
  }
  output("y");
  EXPECT_EQ(result({{"x", tensor({1, 2}, {1, 1, 1, 2})}}, 1), (std::vector<double>{0, 1, 2, 1, 2, 0, 1, 2, 1, 2}));
}

// Opset 10 says no more than "nearest": a smaller image has the pixels behind.
TEST_F(EarlyOpsets, ResizingToTheNearest) {
  input("x", {1, 1, 2, 4});
  auto* scales = initializer("scales", {4});
  for (const float scale : {1.0f, 1.0f, 0.6f, 0.6f}) scales->add_float_data(scale);
  node("Resize", {"x", "scales"}, {"y"});
  output("y");
  const auto x = tensor({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 4});
  EXPECT_EQ(result({{"x", x}}, 10), (std::vector<double>{1, 3}));
  scales->set_float_data(2, 1.0f);
  scales->set_float_data(3, 1.5f);
  EXPECT_EQ(result({{"x", x}}, 10), (std::vector<double>{1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8}));
  scales->set_float_data(2, 0.6f);
  EXPECT_EQ(error(), ErrorCode::E603);
}

// The only version with a scale for each group is one that went out of use.
TEST_F(EarlyOpsets, NormalizationOfGroups) {
  input("x", {1, 4, 2});
  for (const auto& [name, a, b] : {std::tuple("scale", 2.0f, 4.0f), std::tuple("bias", 1.0f, 0.0f)}) {
    auto* t = initializer(name, {2});
    t->add_float_data(a);
    t->add_float_data(b);
  }
  int_attribute(node("GroupNormalization", {"x", "scale", "bias"}, {"y"}), "num_groups", 2);
  output("y");
  const auto y = result({{"x", tensor({1, 3, 1, 3, 7, 5, 7, 5}, {1, 4, 2})}}, 18);
  const std::vector<double> wanted{-1, 3, -1, 3, 4, -4, 4, -4};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(y.at(i), wanted[i], 1e-4) << i;
}

TEST_F(EarlyOpsets, NormalizationOfActivations) {
  input("x", {2, 2});
  for (const auto& [name, a, b] : {std::tuple("scale", 2.0f, 4.0f), std::tuple("bias", 1.0f, 0.0f),
                                   std::tuple("mean", 3.0f, 5.0f), std::tuple("variance", 1.0f, 4.0f)}) {
    auto* t = initializer(name, {2});
    t->add_float_data(a);
    t->add_float_data(b);
  }
  auto* norm = node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y"});
  int_attribute(norm, "spatial", 0);
  int_attribute(norm, "is_test", 1);
  output("y");
  const auto y = result({{"x", tensor({3, 5, 4, 7}, {2, 2})}}, 6);
  const std::vector<double> wanted{1, 0, 3, 4};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y.at(i), wanted[i], 1e-4) << i;
}

// Each output of the training form, of one channel.
TEST_F(EarlyOpsets, NormalizationThatTrains) {
  input("x", {4, 1});
  for (const auto& [name, value] :
       {std::pair("scale", 1.0f), std::pair("bias", 0.0f), std::pair("mean", 10.0f), std::pair("variance", 2.0f)})
    initializer(name, {1})->add_float_data(value);
  node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y", "m", "v", "saved_mean", "saved_var"});
  for (const char* name : {"y", "m", "v", "saved_mean", "saved_var"}) output(name);
  model_.mutable_opset_import(0)->set_version(9);
  auto graph = import();
  ASSERT_TRUE(graph) << graph.error().to_string();
  ASSERT_TRUE(optimize(*graph));
  const auto out = evaluate(*graph, {{"x", tensor({1, 3, 1, 3}, {4, 1})}}, interpreter_executor());
  ASSERT_TRUE(out) << out.error().to_string();
  EXPECT_NEAR(out->at("y").at(0), -1, 1e-4);
  EXPECT_NEAR(out->at("m").at(0), 0.9 * 10 + 0.1 * 2, 1e-5);
  EXPECT_NEAR(out->at("v").at(0), 0.9 * 2 + 0.1 * 1, 1e-5);
  EXPECT_NEAR(out->at("saved_mean").at(0), 2, 1e-6);
}

TEST_F(EarlyOpsets, DropoutWithANumericMask) {
  input("x", {2});
  node("Dropout", {"x"}, {"unused", "y"});
  output("y");
  EXPECT_EQ(result({{"x", tensor({5, 6}, {2})}}, 7), (std::vector<double>{1, 1}));
}

// --- random numbers

class RandomNodes : public OnnxImport {
 protected:
  static void float_attribute(onnx::NodeProto* n, const std::string& name, float value) {
    auto* a = n->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::FLOAT);
    a->set_f(value);
  }
  std::map<std::string, ConstantTensor> call(int64_t number) {
    auto graph = import();
    EXPECT_TRUE(graph) << graph.error().to_string();
    const auto done = optimize(*graph);
    EXPECT_TRUE(done) << done.error().to_string();
    std::map<std::string, ConstantTensor> inputs;
    for (const GraphState& state : graph->states())
      inputs.emplace(state.input->name, reshaped(int_list(std::vector<int64_t>{number}), {}));
    auto out = evaluate(*graph, inputs, interpreter_executor());
    EXPECT_TRUE(out) << out.error().to_string();
    return *out;
  }
  static std::pair<double, double> moments(const ConstantTensor& t) {
    double sum = 0, squares = 0;
    for (const double x : to_doubles(t)) sum += x, squares += x * x;
    const auto n = static_cast<double>(t.n_elems());
    return {sum / n, squares / n - (sum / n) * (sum / n)};
  }
};

TEST_F(RandomNodes, SeedsSayWhatIsDrawn) {
  for (const char* name : {"a", "b"}) {
    auto* n = node("RandomUniform", {}, {name});
    ints_attribute(n, "shape", {64, 64});
    float_attribute(n, "seed", 3);
    float_attribute(n, "low", -1);
    float_attribute(n, "high", 3);
    output(name);
  }
  const auto first = call(0), second = call(1);
  EXPECT_EQ(first.at("a"), second.at("a"));
  EXPECT_FALSE(first.at("a") == first.at("b"));  // each node has its own
  const auto [mean, variance] = moments(first.at("a"));
  EXPECT_NEAR(mean, 1, 4 * 1.155 / 64);
  EXPECT_NEAR(variance, 16.0 / 12, 0.06);
  for (const double x : to_doubles(first.at("a"))) EXPECT_TRUE(x >= -1 && x <= 3);
  // What the numbers are is part of what a seed means.
  EXPECT_EQ(first.at("a").at(0), call(0).at("a").at(0));
}

TEST_F(RandomNodes, NormalNumbersAreNormal) {
  auto* n = node("RandomNormal", {}, {"y"});
  ints_attribute(n, "shape", {128, 128});
  float_attribute(n, "seed", 1);
  float_attribute(n, "mean", 5);
  float_attribute(n, "scale", 2);
  output("y");
  const auto out = call(0);
  const auto [mean, variance] = moments(out.at("y"));
  EXPECT_NEAR(mean, 5, 4 * 2.0 / 128);
  EXPECT_NEAR(variance, 4, 0.2);
  int64_t within = 0;
  for (const double x : to_doubles(out.at("y"))) within += std::abs(x - 5) < 2;
  EXPECT_NEAR(static_cast<double>(within) / (128 * 128), 0.6827, 0.015);
}

TEST_F(RandomNodes, WithoutASeedCallsDiffer) {
  auto* n = node("RandomNormal", {}, {"y"});
  ints_attribute(n, "shape", {16});
  output("y");
  const auto first = call(0), second = call(1);
  EXPECT_FALSE(first.at("y") == second.at("y"));
  EXPECT_EQ(first.at("y"), call(0).at("y"));
  EXPECT_EQ(second.at("random.calls.next").int_at(0), 2);
}

TEST_F(RandomNodes, ClassesAreDrawnAsOftenAsTheyAreLikely) {
  auto* logits = initializer("logits", {1, 3});
  for (const double p : {0.2, 0.5, 0.3}) logits->add_float_data(static_cast<float>(std::log(p) + 4));
  auto* n = node("Multinomial", {"logits"}, {"y"});
  float_attribute(n, "seed", 1);
  auto* a = n->add_attribute();
  a->set_name("sample_size");
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(10000);
  output("y");
  std::map<double, int> counts;
  for (const double x : to_doubles(call(0).at("y"))) ++counts[x];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[0], 2000, 160);
  EXPECT_NEAR(counts[1], 5000, 200);
  EXPECT_NEAR(counts[2], 3000, 190);
}

TEST_F(RandomNodes, WithoutASeedInALoopIsRefused) {
  initializer("limit", {}, TensorProto::INT64)->add_int64_data(2);
  auto* loop = node("Loop", {"limit", ""}, {"y"});
  auto* a = loop->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  auto* g = a->mutable_g();
  g->set_name("body");
  g->add_input()->set_name("i");
  g->add_input()->set_name("c");
  auto* inner = g->add_node();
  inner->set_op_type("RandomUniform");
  inner->add_output("r");
  ints_attribute(inner, "shape", {2});
  g->add_output()->set_name("c");
  g->add_output()->set_name("r");
  output("y");
  EXPECT_EQ(error(), ErrorCode::E603);
  float_attribute(inner, "seed", 1);
  EXPECT_EQ(error(), ErrorCode::kNone);
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

TEST_F(OnnxImport, NumbersOfInitializersFitTheirType) {
  relu_model();
  auto* t = initializer("w", {1});
  for (const auto& [type, fits, beyond] : {std::tuple{TensorProto::UINT8, 255, 300},
                                           {TensorProto::INT8, -128, -129},
                                           {TensorProto::FLOAT16, 65535, 65536}}) {
    t->set_data_type(type);
    t->clear_raw_data();
    t->clear_float_data();
    t->clear_int32_data();
    t->add_int32_data(fits);
    EXPECT_EQ(error(), ErrorCode::kNone) << fits;
    t->set_int32_data(0, beyond);
    EXPECT_EQ(error(), ErrorCode::E606) << beyond;
  }
  t->clear_int32_data();
  t->set_data_type(TensorProto::UINT32);
  t->add_uint64_data(uint64_t{1} << 32);
  EXPECT_EQ(error(), ErrorCode::E606);
}

TEST_F(OnnxImport, OperatorsOfAnyNumberOfInputsLeaveOutNone) {
  input("a", {2});
  input("b", {2});
  auto* made = node("Sum", {"a", "", "b"}, {"y"});
  output("y");
  EXPECT_EQ(error(), ErrorCode::E606);
  for (const char* op : {"Concat", "Max", "Mean", "SequenceConstruct"}) {
    made->set_op_type(op);
    EXPECT_EQ(error(), ErrorCode::E606) << op;
  }
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
  EXPECT_EQ(error(), ErrorCode::E606);  // by ONNX's table of operators
  wrong->set_input(0, "s");
  EXPECT_EQ(error(), ErrorCode::kNone);
  wrong->set_output(0, "s");
  EXPECT_EQ(error(), ErrorCode::E605);  // made twice
}

}  // namespace
}  // namespace fettle
