#pragma once
// Models that the kinds of hostile files begin with.

#include <string>
#include <vector>

#include "hostile/kinds.h"
#include "onnx-ml.pb.h"

namespace fettle::hostile {

using Spoil = std::function<void(onnx::ModelProto& model, int variant)>;

/// x: f32[2, 4] → Relu → "h" → Gemm with an initializer "w" [4, 3] → y. Nodes 0 and 1.
onnx::ModelProto small_model();
onnx::NodeProto* add_node(onnx::GraphProto* graph, const std::string& op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs);
onnx::AttributeProto* add_int(onnx::NodeProto* node, const std::string& name, int64_t value);
onnx::AttributeProto* add_ints(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values);
void add_value(onnx::ValueInfoProto* value, const std::string& name, const std::vector<int64_t>& dims,
               int type = onnx::TensorProto::FLOAT);
onnx::TensorProto* add_ints_tensor(onnx::GraphProto* graph, const std::string& name,
                                   const std::vector<int64_t>& values);
/// A body of an If: one Relu of x.
onnx::GraphProto* add_body(onnx::NodeProto* node, const std::string& name, const std::string& output);

/// A kind of small models that `spoil` has changed: import and all passes.
Kind model_kind(std::string name, Spoil spoil, int variants = 3);
/// Reads and optimises a file as `fettle compile` does, and plans it.
Result<> read_model(const std::filesystem::path& path);

}  // namespace fettle::hostile
