#pragma once
// Compares what a compiled model computes with what its file says, and finds the node where they part.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/open.h"
#include "runtime/tensor.h"

namespace fettle {

struct ModelVerifyOptions {
  OpenOptions open = {};        // its shapes are those of the inputs; its records are not used
  double max_operations = 2e8;  // ReferenceOptions::max_operations
  std::function<void(const std::string&)> progress = {};
  /// For tests: changes the graph that a pass has left, in every compiled model.
  std::function<void(std::string_view pass, Graph& graph)> sabotage = {};
};

struct Verification {
  int compared = 0;                    // values
  std::vector<Origin> left_out;        // nodes that were too much work for the reference, and what needs their results
  std::string value;                   // the first that differs, in the model's order; empty: none does
  double distance = 0, tolerance = 0;  // largest absolute difference, and what rounding explains
  std::vector<Origin> nodes;        // where it comes from: one node, or those that differ only where they are together
  std::vector<std::string> passes;  // over the graph: where any one of these is left out, nothing differs
};

/// Compiles the model as `run` does, and compares the values that its plan keeps with run_reference's. How far floats
/// may be apart, a second reference tells whose inputs are off by their rounding error: what becomes of that, times the
/// root of the number of terms. Values before which nothing differs tell where to look: these are asked for as outputs
/// until one node is left.
/// Strings are not compared. Errors: those of open_model and of Model::run, and those of importing · E603 an input of
/// strings
Result<Verification> verify_model(const ModelFile& file, std::span<const NamedTensor> inputs,
                                  const ModelVerifyOptions& options = {});

}  // namespace fettle
