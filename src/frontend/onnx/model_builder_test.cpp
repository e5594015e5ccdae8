#include "frontend/onnx/model_builder.h"

#include <gtest/gtest.h>

#include <vector>

namespace fettle {
namespace {

using Builder = std::shared_ptr<ModelBuilder>;

Builder builder(const std::string& name = "g") { return ModelBuilder::make(name).value(); }

int add(const Builder& graph, const std::string& op, std::vector<std::optional<BuilderValue>> inputs,
        std::vector<std::pair<std::string, BuilderAttribute>> attributes = {}) {
  const auto made = graph->add_node({.op = op, .inputs = std::move(inputs), .attributes = std::move(attributes)});
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? made->front() : 0;
}

/// y = x[N, 2] * w + w
Builder product(const ConstantTensor& weights) {
  const Builder graph = builder();
  const BuilderValue x{graph, graph->add_input("x", kF32, {{std::string("N"), int64_t{2}}}).value()};
  const BuilderValue w{graph, graph->add_constant("", weights).value()};
  const BuilderValue scaled{graph, add(graph, "Mul", {x, w})};
  const BuilderValue sum{graph, add(graph, "Add", {scaled, w})};
  EXPECT_TRUE(graph->add_output("y", sum));
  return graph;
}

TEST(ModelBuilder, ConstantsShareTheirMemory) {
  const ConstantTensor weights = to_tensor(std::vector<double>{1, 2}, kF32, {2}).value();
  const auto model = product(weights)->finish();
  ASSERT_TRUE(model) << model.error().to_string();
  const auto graph = import_onnx(*model);
  ASSERT_TRUE(graph) << graph.error().to_string();
  int shared = 0;
  for (const Node* node : graph->nodes())
    for (const Value* input : node->inputs) shared += input->constant && input->constant->data() == weights.data();
  EXPECT_EQ(shared, 2);
  EXPECT_TRUE(external_files(*model).empty());
}

TEST(ModelBuilder, TheSameStepsGiveTheSameModel) {
  const ConstantTensor weights = to_tensor(std::vector<double>{1, 2}, kF32, {2}).value();
  const Digest first = digest_of(product(weights)->finish().value()).value();
  (void)builder()->add_constant("", weights);
  EXPECT_EQ(digest_of(product(weights)->finish().value()).value(), first);
  const ConstantTensor others = to_tensor(std::vector<double>{1, 3}, kF32, {2}).value();
  EXPECT_NE(digest_of(product(others)->finish().value()).value(), first);
}

TEST(ModelBuilder, InfersTypesWhileItIsBuilt) {
  const Builder graph = builder();
  const BuilderValue x{graph, graph->add_input("x", kF32, {{std::string("N"), int64_t{6}}}).value()};
  const BuilderValue shape{graph, graph->add_constant("s", int_list(std::vector<int64_t>{-1, 2, 3})).value()};
  const int reshaped = add(graph, "Reshape", {x, shape});
  EXPECT_EQ(graph->type_of(reshaped)->to_string(), "f32[N, 2, 3]");
  const int cast = add(graph, "Cast", {BuilderValue{graph, reshaped}}, {{"to", kI64}});
  EXPECT_EQ(graph->dtype_of(cast), kI64);
  EXPECT_EQ(graph->type_of(cast)->to_string(), "i64[N, 2, 3]");
}

TEST(ModelBuilder, WhatIsOfAnotherGraphIsRefused) {
  const Builder graph = builder(), body = builder("body");
  const BuilderValue x{graph, graph->add_input("x", kF32, std::vector<BuilderDim>{int64_t{2}}).value()};
  ASSERT_TRUE(body->add_output("y", {body, add(body, "Neg", {x})}));
  const auto alone = body->finish();
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::E605);
  const auto condition = graph->add_input("c", kBool, std::vector<BuilderDim>{}).value();
  const BuilderNode branch{.op = "If",
                           .inputs = {BuilderValue{graph, condition}},
                           .attributes = {{"then_branch", body}, {"else_branch", body}}};
  ASSERT_TRUE(graph->add_node(branch));
  EXPECT_EQ(body->add_constant("", scalar(1)).error().code, ErrorCode::E709);
}

}  // namespace
}  // namespace fettle
