#pragma once
// From a model file to the graph that is planned.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "frontend/frontend.h"
#include "graph/graph.h"
#include "graph/passes/pipeline.h"

namespace fettle {

/// A model's file, and which of its functions is the model, where it is one of functions.
struct ModelFile {
  std::string path;
  std::string function;  // empty: the one that the front end takes

  ModelFile(std::string file = {}, std::string of_file = {}) : path(std::move(file)), function(std::move(of_file)) {}
  ModelFile(const char* file) : path(file) {}
};

/// Where a model comes from: a file, or one that was read or built.
using ModelSource = std::variant<ModelFile, OnnxModel, ImportedModel>;

/// "resnet50" of "models/resnet50.onnx", "f.step" of the function `step` of "f.tc".
std::string model_name(const ModelSource& source);

/// Says which function a file's graph is, where there are several, none was asked for, and it is not called `main`.
/// say: may be null.
void note_function(const ModelSource& source, const Graph& graph, const std::function<void(const std::string&)>& say);

/// Shapes of inputs, by name.
using InputShapes = std::map<std::string, std::vector<int64_t>>;
InputNames names_of(const InputShapes& shapes);

/// Of all inputs of a graph, at typical sizes.
InputShapes typical_shapes(const Graph& graph);

/// Outputs that are inputs of the next call, by their names: output → input.
using ModelStates = std::map<std::string, std::string>;

/// Imports, fixes shapes, runs the passes. What `shapes` leaves out stays open, within what `sizes` says. An
/// initializer that the model lists as an input is one, if `shapes` names it. `after` is told of what each pass has
/// left; passes of `without` do not run. `limits`: what the model may ask for.
/// Errors: those of the front end, bind_shapes, refine_sizes, optimize, declare_states · E604 a size that no input
/// tells
Result<Graph> load_model(const ModelSource& source, const InputShapes& shapes, const OpenSizes& sizes = {},
                         const ModelStates& states = {}, const GraphObserver& after = {}, const PassNames& without = {},
                         const Limits& limits = {});

}  // namespace fettle
