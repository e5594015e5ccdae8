#pragma once
// Kinds of model files. Each front end is a folder with one FrontendDef, and makes the same graph.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "frontend/model_survey.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace fettle {

/// A model that a front end has read: of a file, or of memory. Copies share it; nothing of it is changed.
struct ImportedModel {
  std::shared_ptr<const Graph> graph;
  std::string label = "model";
  /// Of all that the graph was made of: what equal models share.
  Digest digest;
};

/// What is asked of a model file.
struct ImportOptions {
  InputNames given = {};      // inputs that the caller gives although the file has their content
  Limits limits = {};         // of what the model may ask for
  std::string function = {};  // which of the file's functions; empty: the one that its front end takes
};

/// A kind of model file: how it is known, and what is made of it.
struct FrontendDef {
  std::string_view name;     // "onnx", "stablehlo"
  std::string_view kind;     // of file, in a sentence: "an ONNX model"
  std::string_view endings;  // of such files: ".mlir, .mlirbc"
  /// Whether it reads the file at `path`, which begins with `head`: its first 64 bytes, or less.
  bool (*recognizes)(std::string_view path, std::span<const std::byte> head);
  /// The file's graph. Errors: those of the front end · E709 the file has no such function
  Result<Graph> (*import)(const std::string& path, const ImportOptions& options);
  /// Whether files are of functions, of which one becomes the graph: Graph::function says which.
  bool has_functions = false;
  /// Files that it takes content from, as it names them, relative to its own folder. Null: never any.
  Result<std::vector<std::string>> (*parts)(std::span<const std::byte> bytes, const std::string& path) = nullptr;
  /// Of files that people write: every problem of one, as `import` would say the first. Null: that one alone.
  std::vector<Diagnostic> (*problems)(const std::string& path, const ImportOptions& options) = nullptr;
  /// What the file says of itself. Null: what its graph does (survey_of). Errors: those of `import` of a damaged file.
  Result<ModelSurvey> (*survey)(const std::string& path, const ImportOptions& options) = nullptr;
};

/// Every front end, from the sources in frontend/.
std::span<const FrontendDef* const> frontends();
/// The one that reads the file at `path`; ONNX's where no other does. E601 it cannot be read
Result<const FrontendDef*> frontend_of(const std::string& path);
/// The problem of the file at `path`, which this front end read; an E602 says what the file was read as.
Diagnostic with_kind(const FrontendDef& frontend, Diagnostic problem, const std::string& path);
/// E709 a function is asked for of a kind of file that has none
Result<> check_function(const FrontendDef& frontend, const ImportOptions& options);
/// What the front end of the file makes of it. Errors: its own · those of check_function
Result<Graph> import_model(const std::string& path, const ImportOptions& options = {});

/// What can be said of a graph, as its front end made it: operators by the names that the file has for them.
ModelSurvey survey_of(const Graph& graph);

}  // namespace fettle
