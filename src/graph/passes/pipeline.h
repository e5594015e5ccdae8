#pragma once
// The list of passes from an imported model to the graph that is planned.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/evaluate.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace fettle {

using PassNames = std::set<std::string, std::less<>>;
using GraphObserver = std::function<void(std::string_view pass, const Graph& graph)>;

struct PassContext {
  /// What a model may ask for. What is too much to be computed while compiling is left to the compiled model.
  Limits limits = {};
  /// Runs what constant folding meets.
  Executor run = interpreter_executor(Limits().folded_steps);
  /// Told of what each pass has left.
  GraphObserver after = {};
  /// Passes that are left out.
  PassNames without = {};
};

/// A pass rewrites the graph and leaves it valid; it need not sort it.
struct GraphPass {
  std::string_view name;
  std::string_view what;  // it does, for people: a clause
  Result<> (*run)(Graph& graph, const PassContext& context);
  /// Whether `run` goes into the bodies of nodes itself; else it runs on each of them, innermost first.
  bool runs_on_bodies = false;
  /// Without it there is nothing that could be planned.
  bool is_needed = false;
};

/// Fixes the shapes of inputs (--shape). A symbol that one input fixes is fixed everywhere.
/// E704 no such input · E705 a shape that the input cannot have, or that gives a symbol a second value
Result<> bind_shapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes);

/// The passes in order.
std::span<const GraphPass> graph_passes();

/// Runs them all; after each, sorts and validates the graph. Afterwards every value is typed, and every input of a
/// node is data for a kernel. Sizes that inputs leave open are left open; see require_sizes.
/// Errors: those of the passes · E709 there is no such pass as is to be left out, or it is needed
Result<> optimize(Graph& graph, const PassContext& context = {});

/// What is known of a size that a model leaves open; what is not said stays as it is.
struct SizeFacts {
  std::optional<int64_t> min, max, divisor;
  /// Values, ascending, for which kernels are made, and tuned (SizeClasses); none: what is typical.
  std::vector<int64_t> points = {};
};
/// By the names of sizes: "batch", or "x.0" where the model has none for axis 0 of x.
using OpenSizes = std::map<std::string, SizeFacts>;

/// Narrows sizes that the inputs leave open. E704 no input has such a size · E705 a range is empty
Result<> refine_sizes(Graph& graph, const OpenSizes& sizes);

/// Outputs that are inputs of the next call: output → input. Of an optimized graph. Each becomes a state, which grows
/// along the one axis in which both differ, up to the largest extent that the input's range allows.
/// Errors: E704 there is no such input or output · E705 their types do not fit · E604 the range has no end
Result<> declare_states(Graph& graph, const std::map<std::string, std::string>& inputs_of_outputs);

/// E604 where a shape has a size in it that no input has.
Result<> require_sizes(const Graph& graph);

}  // namespace fettle
