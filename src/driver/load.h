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

/// Of all inputs of a graph, at typical sizes.
InputShapes typical_shapes(const Graph& graph);

/// Outputs that are inputs of the next call, by their names: output → input.
using ModelStates = std::map<std::string, std::string>;

/// Imports, fixes shapes, runs the passes. What `shapes` leaves out stays open, within what `sizes` says. An
/// initializer that the model lists as an input is one, if `shapes` names it. `after` is told of what each pass has
/// left; passes of `without` do not run. `limits`: what the model may ask for.
/// Errors: those of import_onnx, bind_shapes, refine_sizes, optimize, declare_states · E604 a size that no input tells
Result<Graph> load_model(const std::string& path, const InputShapes& shapes, const OpenSizes& sizes = {},
                         const ModelStates& states = {}, const GraphObserver& after = {}, const PassNames& without = {},
                         const Limits& limits = {});

}  // namespace fettle
