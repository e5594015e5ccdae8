#pragma once
// Whether a model is what ONNX allows, before anything is made of it.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/limits.h"

namespace onnx {
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace fettle::onnx_reader {

/// What the model states of itself, and each of its nodes, bodies included, beside ONNX's table of operators
/// (schema.h): names, attributes and their kinds, numbers of inputs and outputs, element types as far as the file tells
/// them. Operators that are not in the table are not looked at: unknown ones are refused elsewhere, and those of other
/// domains check themselves.
/// Errors: E605 types that contradict each other, names given twice · E606 an attribute, an input or an output ·
/// E608 a limit · E609 a version
Result<> check_model(const onnx::ModelProto& model, const Limits& limits);

/// Opsets by their domains; ONNX's own is "".
using Opsets = std::map<std::string, int64_t, std::less<>>;

/// What check_model states of one node, bodies included, and its errors. types: of the values that the node and its
/// bodies read, as schemas write them ("tensor(float)"); empty: not known. Returns those of its outputs, likewise.
Result<std::vector<std::string>> check_node(const onnx::NodeProto& node, const Opsets& opsets,
                                            const std::unordered_map<std::string, std::string>& types,
                                            const Limits& limits);

}  // namespace fettle::onnx_reader
