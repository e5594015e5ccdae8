#include "driver/load.h"

#include "driver/prepare.h"
#include "frontend/onnx/import.h"

namespace fettle {

InputShapes typical_shapes(const Graph& graph) {
  InputShapes shapes;
  for (const Value* input : graph.inputs())
    for (const Dim& dim : input->shape()) shapes[input->name].push_back(dim.typical());
  return shapes;
}

Result<> prepare_graph(Graph& graph, const InputShapes& shapes, const OpenSizes& sizes, const ModelStates& states,
                       const GraphObserver& after, const PassNames& without, const Limits& limits) {
  FETTLE_TRY_VOID(bind_shapes(graph, shapes));
  FETTLE_TRY_VOID(refine_sizes(graph, sizes));
  FETTLE_TRY_VOID(optimize(
      graph, {.limits = limits, .run = interpreter_executor(limits.folded_steps), .after = after, .without = without}));
  FETTLE_TRY_VOID(require_sizes(graph));
  return declare_states(graph, states);
}

Result<Graph> load_model(const std::string& path, const InputShapes& shapes, const OpenSizes& sizes,
                         const ModelStates& states, const GraphObserver& after, const PassNames& without,
                         const Limits& limits) {
  InputNames given;
  for (const auto& [name, extents] : shapes) given.insert(name);
  FETTLE_TRY(Graph graph, import_onnx(path, given, limits));
  FETTLE_TRY_VOID(prepare_graph(graph, shapes, sizes, states, after, without, limits));
  return graph;
}

}  // namespace fettle
