#include "graph/random_calls.h"

#include "graph/op_registry.h"
#include "graph/op_util.h"

namespace fettle {

Value* add_random_calls(Graph& graph) { return graph.add_input(kRandomCalls, {kI64, {}}); }

void count_random_calls(Graph& graph, Value* calls) {
  Value* one = graph.add_constant(calls->name + ".one", scalar(1, kI64));
  Node* next = graph.add_node(find_op("Add"), calls->name + ".next", {calls, one});
  graph.add_state({.input = calls, .output = static_cast<int>(graph.outputs().size())});
  graph.add_output(next->name, next->output());
}

}  // namespace fettle
