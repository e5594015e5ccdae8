#include "quantize/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "frontend/onnx/model_writer.h"
#include "onnx-ml.pb.h"
#include "quantize/sample_files.h"
#include "runtime/npy.h"

namespace fettle::quantize {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("fettle_quantize_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    model_ = std::make_shared<onnx::ModelProto>();
    model_->set_ir_version(8);
    model_->add_opset_import()->set_version(17);
    graph_ = model_->mutable_graph();
    graph_->set_name("g");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void value(onnx::ValueInfoProto* made, const std::string& name, const std::vector<int64_t>& shape) {
    made->set_name(name);
    auto* type = made->mutable_type()->mutable_tensor_type();
    type->set_elem_type(TensorProto::FLOAT);
    for (const int64_t extent : shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  void input(const std::string& name, const std::vector<int64_t>& shape) {
    value(graph_->add_input(), name, shape);
    shapes_.emplace_back(name, shape);
  }
  void output(const std::string& name, const std::vector<int64_t>& shape) { value(graph_->add_output(), name, shape); }

  TensorProto* constant(const std::string& name, const std::vector<int64_t>& shape, float scale = 0.3f) {
    auto* made = graph_->add_initializer();
    made->set_name(name);
    made->set_data_type(TensorProto::FLOAT);
    int64_t count = 1;
    for (const int64_t extent : shape) {
      made->add_dims(extent);
      count *= extent;
    }
    std::normal_distribution<float> normal(0, scale);
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      const float element = normal(random_);
      bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
    made->set_raw_data(bytes);
    return made;
  }

  NodeProto* node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    auto* made = graph_->add_node();
    made->set_op_type(op);
    made->set_name("the_" + output);
    for (const std::string& name : inputs) made->add_input(name);
    made->add_output(output);
    return made;
  }
  static void ints(NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
    auto* made = node->add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) made->add_ints(value);
  }
  static void integer(NodeProto* node, const std::string& name, int64_t value) {
    auto* made = node->add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::INT);
    made->set_i(value);
  }

  Tensor random_tensor(const std::vector<int64_t>& shape) {
    Tensor tensor = Tensor::make(FETTLE_F32, shape).value();
    std::normal_distribution<float> normal;
    for (float& element : tensor.elems<float>()) element = normal(random_);
    return tensor;
  }

  Samples samples(size_t count = 3) {
    const auto kept = std::make_shared<std::vector<std::vector<NamedTensor>>>(count);
    for (auto& sample : *kept)
      for (const auto& [name, shape] : shapes_) sample.push_back({name, random_tensor(shape)});
    return {count, [kept](size_t i) -> Result<std::vector<NamedTensor>> {
              std::vector<NamedTensor> inputs;
              for (const NamedTensor& input : (*kept)[i]) inputs.push_back({input.name, input.tensor.clone().value()});
              return inputs;
            }};
  }

  OnnxModel model() const { return {model_}; }

  Result<QuantizedModel> quantized(Options options = {}) {
    options.measures_errors = true;
    options.open.threads = 1;
    return quantize_model(model(), samples(), options);
  }

  static const NodeProto* find(const OnnxModel& model, const std::string& name) {
    for (const NodeProto& node : model.proto->graph().node())
      if (node.name() == name) return &node;
    return nullptr;
  }
  static const TensorProto* tensor(const OnnxModel& model, const std::string& name) {
    for (const TensorProto& tensor : model.proto->graph().initializer())
      if (tensor.name() == name) return &tensor;
    return nullptr;
  }
  static const QuantizedValue* find(const QuantizedModel& made, const std::string& name) {
    for (const QuantizedValue& value : made.values)
      if (value.name == name) return &value;
    return nullptr;
  }

  /// x → Conv → Relu → MaxPool → Concat with another Conv → GlobalAveragePool → Flatten → Gemm → y
  void convolutions() {
    input("x", {1, 3, 12, 12});
    output("y", {1, 5});
    constant("w1", {8, 3, 3, 3});
    constant("b1", {8});
    constant("w2", {4, 3, 1, 1});
    constant("w3", {5, 12});
    constant("b3", {5});
    ints(node("Conv", {"x", "w1", "b1"}, "c1"), "pads", {1, 1, 1, 1});
    node("Relu", {"c1"}, "r1");
    NodeProto* pool = node("MaxPool", {"r1"}, "p1");
    ints(pool, "kernel_shape", {2, 2});
    ints(pool, "strides", {2, 2});
    NodeProto* other = node("Conv", {"x", "w2"}, "c2");
    ints(other, "strides", {2, 2});
    integer(node("Concat", {"p1", "c2"}, "joined"), "axis", 1);
    node("GlobalAveragePool", {"joined"}, "mean");
    node("Flatten", {"mean"}, "flat");
    integer(node("Gemm", {"flat", "w3", "b3"}, "y"), "transB", 1);
  }

  std::filesystem::path folder_;
  std::shared_ptr<onnx::ModelProto> model_;
  GraphProto* graph_ = nullptr;
  std::mt19937 random_{1};
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes_;
};

TEST_F(Quantize, ConvolutionsReadBytes) {
  convolutions();
  const auto made = quantized();
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->n_products, 3);
  EXPECT_EQ(made->n_weights, 3);
  EXPECT_TRUE(made->left.empty());
  // What Relu clips stays float, and so does the result.
  EXPECT_EQ(find(*made, "c1"), nullptr);
  EXPECT_EQ(find(*made, "y"), nullptr);
  for (const char* name : {"x", "r1", "p1", "c2", "joined", "mean", "flat"})
    ASSERT_NE(find(*made, name), nullptr) << name;
  // What only moves elements has one scale, and clipped values begin at 0.
  for (const char* name : {"p1", "c2", "joined"})
    EXPECT_EQ(find(*made, name)->affine.scale, find(*made, "r1")->affine.scale) << name;
  EXPECT_EQ(find(*made, "flat")->affine.scale, find(*made, "mean")->affine.scale);
  EXPECT_NE(find(*made, "x")->affine.scale, find(*made, "mean")->affine.scale);
  ASSERT_EQ(made->outputs.size(), 1U);
  EXPECT_GT(made->outputs[0].signal_to_noise_db, 25);
  EXPECT_LT(made->outputs[0].signal_to_noise_db, 90);
  for (const QuantizedValue& value : made->values) EXPECT_GT(value.signal_to_noise_db.value(), 20) << value.name;
  // Weights have a scale for each output channel; the floats are gone.
  EXPECT_EQ(tensor(made->model, "w1"), nullptr);
  ASSERT_NE(tensor(made->model, "w1_scale"), nullptr);
  EXPECT_EQ(tensor(made->model, "w1_scale")->dims(0), 8);
  EXPECT_EQ(tensor(made->model, "w3_scale")->dims(0), 5);
  EXPECT_EQ(tensor(made->model, "b1_quantized")->data_type(), TensorProto::INT32);
  EXPECT_EQ(tensor(made->model, "w1_quantized")->data_type(), TensorProto::INT8);
  EXPECT_EQ(tensor(made->model, "x_zero_point")->data_type(), TensorProto::UINT8);
}

TEST_F(Quantize, OneScaleForEachTensor) {
  convolutions();
  const auto made = quantized({.activations = ByteType::kS8, .per_channel = false});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(tensor(made->model, "w1_scale")->dims_size(), 0);
  EXPECT_EQ(tensor(made->model, "x_zero_point")->data_type(), TensorProto::INT8);
  EXPECT_GT(made->outputs[0].signal_to_noise_db, 20);
}

TEST_F(Quantize, PercentilesLeaveOutliersOut) {
  convolutions();
  const auto all = quantized();
  const auto most = quantized({.method = RangeMethod::kPercentile, .percentile = 90});
  ASSERT_TRUE(all && most);
  EXPECT_LT(find(*most, "x")->affine.scale, 0.8f * find(*all, "x")->affine.scale);
}

TEST_F(Quantize, ResidualSumsReadBytes) {
  input("x", {1, 4, 6, 6});
  output("y", {1, 4, 6, 6});
  constant("w", {4, 4, 1, 1});
  node("Conv", {"x", "w"}, "a");
  node("Relu", {"a"}, "r");
  node("Conv", {"r", "w"}, "b");
  node("Add", {"b", "r"}, "sum");
  node("Conv", {"sum", "w"}, "y");
  const auto made = quantized();
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_NE(find(*made, "b"), nullptr);
  EXPECT_EQ(find(made->model, "the_sum")->input(0), "b_dequantized");
  EXPECT_EQ(made->n_weights, 1);  // three nodes share it
  EXPECT_EQ(find(made->model, "the_a")->input(1), find(made->model, "the_y")->input(1));
}

TEST_F(Quantize, FloatNodesReadFloats) {
  input("x", {4, 8});
  output("y", {4, 8});
  output("h", {4, 8});
  constant("w", {8, 8});
  constant("half", {8});
  node("Sigmoid", {"x"}, "h");
  node("MatMul", {"h", "w"}, "product");
  node("Mul", {"product", "half"}, "scaled");
  node("Sub", {"scaled", "h"}, "y");
  const auto made = quantized();
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->values.size(), 1U);
  EXPECT_EQ(find(made->model, "the_product")->input(0), "h_dequantized");
  EXPECT_EQ(find(made->model, "the_y")->input(1), "h");
  EXPECT_EQ(find(made->model, "the_scaled")->SerializeAsString(), find(model(), "the_scaled")->SerializeAsString());
  ASSERT_EQ(made->outputs.size(), 2U);
  EXPECT_EQ(made->outputs[1].name, "h");
  EXPECT_TRUE(std::isinf(made->outputs[1].signal_to_noise_db));
}

TEST_F(Quantize, SaysWhatStaysFloatAndWhy) {
  input("x", {4, 8});
  output("y", {4, 8});
  output("z", {4, 8});
  output("v", {4, 8});
  constant("w", {8, 8});
  TensorProto* bad = constant("bad", {8, 8});
  const float infinite = INFINITY;
  std::memcpy(bad->mutable_raw_data()->data(), &infinite, sizeof infinite);
  constant("zero", {8}, 0);
  node("MatMul", {"x", "w"}, "y");
  node("MatMul", {"x", "bad"}, "z");
  node("Div", {"x", "zero"}, "endless");
  node("MatMul", {"endless", "w"}, "v");
  const auto made = quantized();
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_EQ(made->left.size(), 2U);
  EXPECT_EQ(made->left[0].name, "the_z");
  EXPECT_EQ(made->left[0].reason, "\"bad\" is not finite everywhere");
  EXPECT_EQ(made->left[1].name, "the_v");
  EXPECT_EQ(made->left[1].reason, "\"endless\" is not finite on the samples");
  EXPECT_NE(tensor(made->model, "w"), nullptr);  // which stays for the_v
  const auto excluded = quantized({.exclude = {"the_y"}});
  ASSERT_FALSE(excluded);
  EXPECT_EQ(excluded.error().code, ErrorCode::E709);
  EXPECT_EQ(quantized({.exclude = {"nothing"}}).error().code, ErrorCode::E709);
}

TEST_F(Quantize, OldOpsetsAreRefusedByName) {
  convolutions();
  model_->mutable_opset_import(0)->set_version(12);
  const auto made = quantized();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::E609);
  EXPECT_NE(made.error().message.find("opset 12"), std::string::npos);
  EXPECT_TRUE(quantized({.per_channel = false}));
}

TEST_F(Quantize, ValuesInGroupsAreTheSame) {
  convolutions();
  const std::vector<std::string> names = {"x", "r1", "p1", "c2", "joined", "mean", "flat"};
  const auto groups = group_observed(model(), names, {.threads = 1}, 4000);
  ASSERT_TRUE(groups) << groups.error().to_string();
  EXPECT_GT(groups->groups.size(), 2U);
  size_t count = 0;
  for (const auto& group : groups->groups) count += group.size();
  EXPECT_EQ(count, names.size());
}

TEST_F(Quantize, ExternalDataComeAlong) {
  convolutions();
  // w1 lies in a file, from byte 64 on.
  TensorProto& w1 = *graph_->mutable_initializer(0);
  const std::string content = w1.raw_data();
  std::ofstream(folder_ / "weights.bin", std::ios::binary) << std::string(64, 'x') << content;
  w1.clear_raw_data();
  w1.set_data_location(TensorProto::EXTERNAL);
  for (const auto& [key, text] : {std::pair{"location", "weights.bin"}, {"offset", "64"}}) {
    auto* entry = w1.add_external_data();
    entry->set_key(key);
    entry->set_value(text);
  }
  const OnnxModel source{model_, {folder_.string()}};
  const auto made = quantize_model(source, samples(), {.exclude = {"the_c1"}, .open = {.threads = 1}});
  ASSERT_TRUE(made) << made.error().to_string();
  std::filesystem::create_directories(folder_ / "other");
  const std::string path = (folder_ / "other" / "int8.onnx").string();
  ASSERT_TRUE(needs_data_file(made->model));
  ASSERT_TRUE(write_onnx(made->model, path));
  std::filesystem::remove(folder_ / "weights.bin");
  const auto read = read_onnx(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(external_files(*read), std::vector<std::string>{"int8.onnx.data"});
  const auto graph = import_onnx(*read);
  ASSERT_TRUE(graph) << graph.error().to_string();
  const Value* kept = graph->find_value("w1");
  ASSERT_TRUE(kept && kept->constant);
  EXPECT_EQ(std::memcmp(kept->constant->data(), content.data(), content.size()), 0);
}

TEST_F(Quantize, SamplesLieInFilesAndFolders) {
  input("a:0", {2, 3});
  input("b", {4});
  const auto sample = folder_ / "samples" / "first", second = folder_ / "samples" / "second";
  std::filesystem::create_directories(sample);
  std::filesystem::create_directories(second);
  ASSERT_TRUE(write_npy(sample / "a_0.npy", random_tensor({2, 3})));
  EXPECT_EQ(open_samples({sample.string()}, model()).error().code, ErrorCode::E704);
  ASSERT_TRUE(write_npy(sample / "b.npy", random_tensor({4})));
  for (const int i : {0, 1}) {
    TensorProto proto;
    proto.set_data_type(TensorProto::FLOAT);
    proto.add_dims(i == 0 ? 6 : 4);
    for (int k = 0; k < (i == 0 ? 6 : 4); ++k) proto.add_float_data(static_cast<float>(k));
    std::ofstream out(second / ("input_" + std::to_string(i) + ".pb"), std::ios::binary);
    proto.SerializeToOstream(&out);
  }
  const auto found = open_samples({(folder_ / "samples").string()}, model());
  ASSERT_TRUE(found) << found.error().to_string();
  ASSERT_EQ(found->count, 2U);
  const auto read = found->read(1);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ((*read)[1].name, "b");
  EXPECT_EQ((*read)[1].tensor.elems<float>()[3], 3);
  EXPECT_EQ(open_samples({(sample / "b.npy").string()}, model()).error().code, ErrorCode::E704);
  EXPECT_EQ(open_samples({(folder_ / "nowhere").string()}, model()).error().code, ErrorCode::E701);
}

}  // namespace
}  // namespace fettle::quantize
