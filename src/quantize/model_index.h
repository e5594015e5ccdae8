#pragma once
// The nodes of a model's own graph by what they make and read. This header has protobuf's in it.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/model_file.h"
#include "graph/constant.h"
#include "onnx-ml.pb.h"

namespace fettle::quantize {

/// Of one model, which must stay as it is meanwhile. Nodes are told by their places in the graph.
class ModelIndex {
 public:
  explicit ModelIndex(const OnnxModel& model);

  const onnx::ModelProto& model() const { return *model_.proto; }
  const onnx::GraphProto& graph() const { return model_.proto->graph(); }
  const onnx::NodeProto& node(int i) const { return graph().node(i); }
  /// The opset of ONNX's own operators; 0: none is stated.
  int64_t opset() const;

  /// Who makes the value; -1: nobody, it is an input or an initializer.
  int producer(std::string_view value) const;
  /// How many nodes read it, each input counted.
  int n_readers(std::string_view value) const;
  /// Whether a body, or the caller, reads it by its name.
  bool is_read_by_name(std::string_view value) const { return by_name_.contains(value); }
  bool is_name(std::string_view name) const { return names_.contains(name); }

  /// The tensor of an initializer or of a node Constant; null: it is none.
  const onnx::TensorProto* constant(std::string_view value) const;
  /// Whether it is one, or made of nothing else.
  bool is_constant(std::string_view value) const { return constants_.contains(value); }
  /// Its content. Errors: those of read_tensor
  Result<ConstantTensor> content(const onnx::TensorProto& tensor) const;

 private:
  void add_names(const onnx::GraphProto& graph);
  void add_body(const onnx::GraphProto& graph);

  const OnnxModel& model_;
  mutable onnx_reader::ExternalFiles files_;
  std::map<std::string, int, std::less<>> producers_, readers_;
  std::map<std::string, const onnx::TensorProto*, std::less<>> tensors_;
  std::set<std::string, std::less<>> by_name_, names_, constants_;
};

/// An attribute of the node, or null.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
int64_t int_attribute(const onnx::NodeProto& node, std::string_view name, int64_t otherwise);
float float_attribute(const onnx::NodeProto& node, std::string_view name, float otherwise);

}  // namespace fettle::quantize
