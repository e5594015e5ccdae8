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
                       const GraphObserver& after, const PassNames& without) {
  FETTLE_TRY_VOID(bind_shapes(graph, shapes));
  FETTLE_TRY_VOID(refine_sizes(graph, sizes));
  FETTLE_TRY_VOID(optimize(graph, {.after = after, .without = without}));
  FETTLE_TRY_VOID(require_sizes(graph));
  return declare_states(graph, states);
}

Result<Graph> load_model(const std::string& path, const InputShapes& shapes, const OpenSizes& sizes,
                         const ModelStates& states, const GraphObserver& after, const PassNames& without) {
  InputNames given;
  for (const auto& [name, extents] : shapes) given.insert(name);
  FETTLE_TRY(Graph graph, import_onnx(path, given));
  FETTLE_TRY_VOID(prepare_graph(graph, shapes, sizes, states, after, without));
  return graph;
}

}  // namespace fettle
