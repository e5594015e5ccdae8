#include "driver/alternation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "driver/bench.h"
#include "driver/compile.h"
#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/testing.h"

namespace fettle {
namespace {

constexpr int64_t kSteps = 5, kInputs = 8, kHidden = 256;

/// An RNN of five steps, whose recurrent weights take 256 KiB.
Graph rnn() {
  GraphMaker m;
  Value* x = m.input("x", {kSteps, 1, kInputs});
  Value* w = m.weights("W", {1, kHidden, kInputs}, 2, 1);
  Value* r = m.weights("R", {1, kHidden, kHidden}, 8, 2);
  Node* layer = m.graph.add_node(find_op("RNN"), "layer", {x, w, r}, {}, {}, 2);
  m.graph.add_output("y", layer->output(0));
  m.graph.add_output("h", layer->output(1));
  EXPECT_TRUE(optimize(m.graph));
  return std::move(m.graph);
}

PlannedModel planned_with(Plans& plans, int64_t l2_bytes) {
  CompileOptions options;
  options.target = detect_host(1);
  options.target.caches = {{.size_bytes = 32 << 10}, {.size_bytes = l2_bytes}, {.size_bytes = 32 << 20}};
  auto planned = plan_model(plans, options);
  EXPECT_TRUE(planned) << (planned ? "" : planned.error().to_string());
  return std::move(*planned);
}

TEST(Alternation, IsOfCallsInLoopsWhoseConstantsFillTheCache) {
  const Graph graph = rnn();
  Plans plans(graph);
  EXPECT_TRUE(std::ranges::all_of(alternating_calls(planned_with(plans, 1 << 20)), [](int loop) { return loop < 0; }));
  const PlannedModel planned = planned_with(plans, 256 << 10);
  const std::vector<int> loops = alternating_calls(planned);
  EXPECT_EQ(std::ranges::count_if(loops, [](int loop) { return loop >= 0; }), 1) << to_text(planned.plan);
  EXPECT_EQ(std::ranges::count(alternating_requests(planned), true), 1);
}

TEST(Alternation, ChangesNoResult) {
  const Graph graph = rnn();
  Plans plans(graph);
  const auto built = build_model(planned_with(plans, 256 << 10));
  ASSERT_TRUE(built) << built.error().to_string();
  EXPECT_EQ(std::ranges::count(built->kernels, true, &BuiltKernel::alternates), 1);
  const auto compiled = package_model(*built);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  auto model = compiled->instantiate();
  ASSERT_TRUE(model) << model.error().to_string();
  const auto inputs = random_inputs(*model, 3);
  ASSERT_TRUE(inputs);
  TensorBuilder x = *make_tensor(kF32, {kSteps, 1, kInputs});
  std::memcpy(x.bytes.get(), inputs->at(0).tensor.data(), static_cast<size_t>(inputs->at(0).tensor.n_bytes()));
  const auto expected = evaluate(graph, {{"x", std::move(x).finish()}}, interpreter_executor());
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto outputs = model->run(*inputs);
  ASSERT_TRUE(outputs) << outputs.error().to_string();
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto got = (*outputs)[i].tensor.elems<float>();
    const auto wanted = expected->at(graph.outputs()[i].name).elems<float>();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], wanted[k], 1e-5) << i << ", " << k;
  }
}

}  // namespace
}  // namespace fettle
