#pragma once
// What a model file says of what goes in and comes out and of where it is from, and the same model changed.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "frontend/onnx/import.h"

namespace fettle {

/// An axis as the file has it.
struct DescribedDim {
  int64_t extent = -1;  // -1: it is open
  std::string name;     // "N"; empty: it has none
};

struct DescribedValue {
  std::string name;
  std::string type;  // as ONNX writes it: "tensor(float)", "seq(tensor(int64))"
  bool has_shape = false;
  std::vector<DescribedDim> dims;  // of a tensor, or of the one that an optional may hold
};

struct DescribedNode {
  std::string name, op_type, domain;
};

struct ModelDescription {
  std::string producer, producer_version, domain, description, graph_name, graph_description;
  int64_t version = 0, ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain, version; ONNX's own is ""
  std::map<std::string, std::string> metadata;
  std::vector<DescribedValue> inputs, outputs;
  std::vector<DescribedValue> overridable;  // initializers that are listed as inputs, too
  std::vector<DescribedNode> nodes;         // without those of bodies
};

/// Content of an initializer: bytes as they lie in memory, or strings.
struct GivenInitializer {
  int32_t type = 0;  // a TensorProto::DataType
  std::vector<int64_t> shape;
  std::string bytes;
  std::vector<std::string> strings;
  bool is_optional = false;  // a model without it is left as it is
};

/// What a model is to have in place of what its file has.
struct ModelChanges {
  std::map<std::string, int64_t> named_dims;                 // open extents of inputs, by their names
  std::map<std::string, int64_t> denoted_dims;               // the same by what they denote: "DATA_BATCH"
  std::map<std::string, std::vector<int64_t>> input_shapes;  // -1: open; of a sequence, those of its elements
  std::map<std::string, GivenInitializer> initializers;      // in place of the model's, or of inputs
  std::map<std::string, onnx_reader::MappedFile> files;      // external data by their locations
};

ModelDescription describe_model(const OnnxModel& model);

/// The model with these changes. What it does not have is not looked at, but
/// E704 an initializer that is given is neither an initializer nor an input
Result<OnnxModel> changed_model(const OnnxModel& model, const ModelChanges& changes);

}  // namespace fettle
