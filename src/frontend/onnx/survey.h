#pragma once
// What an ONNX file says of itself, and the model without some of its nodes.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/model_survey.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"

namespace fettle {

/// A model file that can be imported again and again, each time with fewer nodes.
class SurveyedModel {
 public:
  /// Errors: those of read_onnx.
  static Result<SurveyedModel> read(const std::string& path);

  ModelSurvey survey() const;
  /// The graph shares constants with this, and must be gone before `cut`. Errors: those of import_onnx.
  Result<Graph> import(const InputNames& given, const Limits& limits = {}) const;
  /// Takes out the node that is called so, or that makes a value called so, or the input, and all that needs its
  /// results. A node in a body takes the node around it along. The outputs are then what is left of them, and what no
  /// node reads.
  /// The names of what went; none: there is nothing of that name.
  std::vector<std::string> cut(const std::string& node);
  /// All nodes of these operators, likewise.
  std::vector<std::string> cut_operators(const std::vector<std::string>& operators);
  bool has_nodes() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace fettle
