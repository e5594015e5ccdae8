#pragma once
// From a model file to the graph that is planned.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/pipeline.h"

namespace fettle {

/// Shapes of inputs, by name.
using InputShapes = std::map<std::string, std::vector<int64_t>>;

/// Imports, fixes shapes, runs the passes; every shape of the result is static. Errors: those of import_onnx,
/// bind_shapes and optimize · E604 a dimension stays unknown. `after` is told of what each pass has left.
Result<Graph> load_model(const std::string& path, const InputShapes& shapes, const GraphObserver& after = {});

}  // namespace fettle
