#include "driver/load.h"

#include <fmt/format.h>

#include "frontend/onnx/import.h"
#include "runtime/tensor.h"

namespace fettle {

namespace {

/// A given shape must be one that the input can have. Unknown names are for bind_shapes to report.
Result<> check_shapes(const Graph& graph, const InputShapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    const Value* input = graph.find_input(name);
    if (!input || !input->type) continue;
    bool fits = input->shape().size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = !input->shape()[d].is_number() || input->shape()[d].value() == shape[d];
    if (!fits)
      return fail(ErrorCode::E705, fmt::format("input '{}' cannot have the shape {}: it is {}", name,
                                               shape_to_string(shape), input->type->to_string()));
  }
  return {};
}

}  // namespace

Result<Graph> load_model(const std::string& path, const InputShapes& shapes, const GraphObserver& after) {
  FETTLE_TRY(Graph graph, import_onnx(path));
  FETTLE_TRY_VOID(check_shapes(graph, shapes));
  FETTLE_TRY_VOID(bind_shapes(graph, shapes));
  FETTLE_TRY_VOID(optimize(graph, {.after = after}));
  FETTLE_TRY_VOID(require_static(graph));
  return graph;
}

}  // namespace fettle
