#pragma once
// ONNX models → graphs.

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace fettle {

/// The oldest opset that is read; the newest is what the ONNX package at hand describes.
inline constexpr int kMinOpset = 1;
inline constexpr int kMaxOpset = 27;

using InputNames = std::set<std::string, std::less<>>;

/// Reads the model at `path`: operators normalised to the newest opset, initializers as constants (mapped, not copied,
/// where their bytes lie raw in an external file), provenance = the file's nodes. Types are inferred by the passes.
/// What the file declares of the types of values is kept (Value::declared).
/// E601 cannot be read · E602 not ONNX, truncated · E603 unsupported operators, all of them listed · E605, E606 a node,
/// tensor or attribute is inconsistent · E607 external data · E608 a limit · E609 opset, IR version
/// given: initializers that the model lists as inputs, too, and that the caller will give: these stay inputs.
Result<Graph> import_onnx(const std::string& path, const InputNames& given = {}, const Limits& limits = {});

/// The same from bytes in memory; external data lie beneath `folder`.
Result<Graph> import_onnx_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                const std::string& label = "model", const InputNames& given = {},
                                const Limits& limits = {});

}  // namespace fettle
