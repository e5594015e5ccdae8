#include "driver/verify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "graph/op.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using onnx::TensorProto;

/// y = tanh(x @ w) * 2 + sigmoid(x @ w)
class Verify : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("fettle_verify_" + std::to_string(getpid()) + ".onnx");
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    auto* graph = model.mutable_graph();
    graph->set_name("g");
    const auto tensor = [](onnx::ValueInfoProto* value, const std::string& name, int rows, int columns) {
      value->set_name(name);
      auto* type = value->mutable_type()->mutable_tensor_type();
      type->set_elem_type(TensorProto::FLOAT);
      type->mutable_shape()->add_dim()->set_dim_value(rows);
      type->mutable_shape()->add_dim()->set_dim_value(columns);
    };
    tensor(graph->add_input(), "x", 4, 6);
    tensor(graph->add_output(), "y", 4, 5);
    const auto constant = [&](const std::string& name, std::vector<int64_t> dims) {
      auto* made = graph->add_initializer();
      made->set_name(name);
      made->set_data_type(TensorProto::FLOAT);
      int64_t count = 1;
      for (const int64_t dim : dims) {
        made->add_dims(dim);
        count *= dim;
      }
      for (int64_t i = 0; i < count; ++i) made->add_float_data(0.25f * static_cast<float>(i % 7) - 0.5f);
    };
    constant("w", {6, 5});
    constant("two", {5});
    const auto node = [&](const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
      auto* made = graph->add_node();
      made->set_op_type(op);
      made->set_name("the_" + output);
      for (const std::string& input : inputs) made->add_input(input);
      made->add_output(output);
    };
    node("MatMul", {"x", "w"}, "product");
    node("Tanh", {"product"}, "curve");
    node("Mul", {"curve", "two"}, "scaled");
    node("Sigmoid", {"product"}, "gate");
    node("Add", {"scaled", "gate"}, "y");
    std::ofstream out(path_, std::ios::binary);
    model.SerializeToOstream(&out);
    out.close();
    Tensor x = Tensor::make(FETTLE_F32, {4, 6}).value();
    for (size_t i = 0; i < 24; ++i) x.elems<float>()[i] = 0.1f * static_cast<float>(i) - 1;
    inputs_.push_back({"x", std::move(x)});
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Verification verify(std::function<void(std::string_view, Graph&)> sabotage = {}, double max_operations = 1e8) {
    auto verdict =
        verify_model(path_.string(), inputs_, {.max_operations = max_operations, .sabotage = std::move(sabotage)});
    EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().to_string());
    return verdict ? *verdict : Verification{};
  }

  /// Every node of one operator becomes one of another, after a pass.
  static auto with(std::string_view from, std::string_view to, std::string_view after) {
    return [=](std::string_view pass, Graph& graph) {
      if (pass != after) return;
      for (Node* node : graph.nodes())
        if (node->op->name == from) node->op = find_op(to);
    };
  }

  std::filesystem::path path_;
  std::vector<NamedTensor> inputs_;
};

TEST_F(Verify, NothingDiffers) {
  const Verification verdict = verify();
  EXPECT_GE(verdict.compared, 1);
  EXPECT_EQ(verdict.value, "") << verdict.distance << " > " << verdict.tolerance;
  EXPECT_TRUE(verdict.left_out.empty());
}

// An operator inside of a kernel that is wrong: it is asked for, and named.
TEST_F(Verify, NamesTheNode) {
  for (const auto& [from, to, name] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"Tanh", "Sigmoid", "the_curve"}, {"Sigmoid", "Tanh", "the_gate"}, {"Mul", "Sub", "the_scaled"}}) {
    const Verification verdict = verify(with(from, to, "settle_bodies"));
    ASSERT_EQ(verdict.nodes.size(), 1u) << from << ": " << verdict.value;
    EXPECT_EQ(verdict.nodes[0], (Origin{from, name}));
    EXPECT_GT(verdict.distance, verdict.tolerance);
    EXPECT_TRUE(verdict.passes.empty()) << verdict.passes[0];  // whichever is left out, it is wrong
  }
}

TEST_F(Verify, NamesThePass) {
  const Verification verdict = verify(with("Tanh", "Sigmoid", "sink_views"));
  ASSERT_EQ(verdict.nodes.size(), 1u) << verdict.value;
  EXPECT_EQ(verdict.nodes[0].name, "the_curve");
  EXPECT_EQ(verdict.passes, (std::vector<std::string>{"sink_views"}));
}

TEST_F(Verify, SaysWhatItLeavesOut) {
  const Verification verdict = verify({}, /*max_operations=*/200);
  ASSERT_EQ(verdict.left_out.size(), 5u);
  EXPECT_EQ(verdict.left_out[0], (Origin{"MatMul", "the_product"}));
  EXPECT_EQ(verdict.compared, 0);
}

}  // namespace
}  // namespace fettle
