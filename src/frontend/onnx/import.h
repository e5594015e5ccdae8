#pragma once
// ONNX models → graphs.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "frontend/onnx/model_file.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace onnx {
class ModelProto;
}

namespace fettle {

/// The oldest opset that is read; the newest is what the ONNX package at hand describes.
inline constexpr int kMinOpset = 1;
inline constexpr int kMaxOpset = 27;

using InputNames = std::set<std::string, std::less<>>;

/// A model that was read, or built (model_builder.h). Copies share it.
struct OnnxModel {
  std::shared_ptr<const onnx::ModelProto> proto;
  onnx_reader::ExternalData data = {};
  std::string label = "model";  // of errors that have no other place
};

/// The files that the model's external data are in, each once, as it names them.
std::vector<std::string> external_files(const OnnxModel& model);
/// Of all that it says, and of its data in memory; not of files. E608 it cannot be written: above 2 GiB
Result<Digest> digest_of(const OnnxModel& model);

/// Whether the bytes can be read as a ModelProto that has no graph, as none at all can: of what E602 refuses, the part
/// that is no damage.
bool lacks_graph(std::span<const std::byte> bytes);

/// The model at `path`; its external data lie beside it.
/// E601 cannot be read · E602 not ONNX, truncated, without a graph · E608 too large · E609 it names no opset
Result<OnnxModel> read_onnx(const std::string& path);
/// The same from bytes in memory, which need not stay; external data lie beneath `folder`, if there is one.
Result<OnnxModel> parse_onnx(std::span<const std::byte> bytes, std::optional<std::string> folder,
                             std::string label = "model");

/// What read_onnx and parse_onnx read, without the content of the graph's initializers, which takes most of the time.
/// Where external data lie is in it. Whether the content that is left out makes sense is not looked at.
/// Errors: theirs.
Result<OnnxModel> read_onnx_outline(const std::string& path);
Result<OnnxModel> parse_onnx_outline(std::span<const std::byte> bytes, std::optional<std::string> folder,
                                     std::string label = "model");

/// Makes a graph: operators normalised to the newest opset, initializers as constants (mapped, not copied, where their
/// bytes lie raw in an external file), provenance = the file's nodes. Types are inferred by the passes.
/// What the file declares of the types of values is kept (Value::declared).
/// E603 unsupported operators, all of them listed · E605, E606 a node, tensor or attribute is inconsistent ·
/// E607 external data · E608 a limit · E609 opset, IR version
/// given: initializers that the model lists as inputs, too, and that the caller will give: these stay inputs.
Result<Graph> import_onnx(const OnnxModel& model, const InputNames& given = {}, const Limits& limits = {});
/// Of what read_onnx reads, and its errors.
Result<Graph> import_onnx(const std::string& path, const InputNames& given = {}, const Limits& limits = {});
/// Of what parse_onnx reads, and its errors.
Result<Graph> import_onnx_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                const std::string& label = "model", const InputNames& given = {},
                                const Limits& limits = {});

}  // namespace fettle
