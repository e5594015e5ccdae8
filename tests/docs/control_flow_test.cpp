// The dumps of docs/control-flow.md: an LSTM, its graph and its plan.

#include <gtest/gtest.h>

#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "page_check.h"

namespace fettle::docs {
namespace {

constexpr const char* kPage = "docs/control-flow.md";

/// Five steps of one sequence, three inputs, four hidden values; of the results, all hidden states are read.
Graph lstm() {
  Graph graph("lstm");
  const auto weights = [&](const std::string& name, std::vector<int64_t> shape) {
    return graph.add_constant(name, *filled(0.125, kF32, std::move(shape)));
  };
  Value* x = graph.add_input("x", {kF32, {5, 1, 3}});
  Node* layer = graph.add_node(find_op("LSTM"), "lstm", {x, weights("W", {1, 16, 3}), weights("R", {1, 16, 4})});
  layer->provenance = {{"LSTM", "lstm"}};
  graph.add_output("y", layer->output());
  return graph;
}

TEST(ControlFlow, ALayerIsALoop) {
  Graph graph = lstm();
  ASSERT_TRUE(optimize(graph));
  check_dump(kPage, "graph", to_text(graph));
  Plan plan = *make_plan(graph);
  assign_memory(plan, [](int) { return true; });
  check_dump(kPage, "plan", to_text(plan));
}

}  // namespace
}  // namespace fettle::docs
