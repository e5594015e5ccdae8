#pragma once
// What a model file says of itself, before anything is made of it; and the model without some of its nodes.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"

namespace fettle {

struct ModelSurvey {
  int64_t ir_version = 0;
  std::string producer;                                              // "pytorch 2.1"
  std::vector<std::pair<std::string, int64_t>> opsets;               // domain, version; ONNX's own is ""
  std::map<std::string, int64_t> operators;                          // how many nodes of each, those in bodies too
  std::map<std::string, std::vector<std::string>> missing;           // operators that are not supported: their nodes
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  // name, type as the file has it: "float[N, 3]"
  int64_t parameters = 0, parameter_bytes = 0;     // elements of initializers and Constants, those in bodies too
  std::map<std::string, int64_t> parameter_types;  // of which type so many elements are
};

/// A model file that can be imported again and again, each time with fewer nodes.
class SurveyedModel {
 public:
  /// E601 cannot be read · E602 not ONNX, truncated · E608 too large
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
