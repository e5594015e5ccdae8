#pragma once
// Sequences, optionals and maps: what the names of a model stand for where that is no tensor (docs/structures.md).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "onnx-ml.pb.h"

namespace fettle::onnx_reader {

/// How a name's tensors make up what it is; an optional has one before them, which says whether it holds anything.
struct StructureKind {
  enum Content : uint8_t { kTensor, kSequence, kMap, kMaps } content = kTensor;
  bool is_optional = false;

  bool is_tensor() const { return content == kTensor && !is_optional; }
  /// What follows the name in those of its tensors: "", or ".data", ".dims", …
  std::vector<std::string_view> suffixes() const;
  /// What each part is to passes (graph/ops/sequence.h).
  std::vector<int64_t> parts() const;
  std::string to_string() const;  // "a sequence"
  friend bool operator==(const StructureKind&, const StructureKind&) = default;
};

struct Structure {
  StructureKind kind;
  std::vector<Value*> tensors;
};

/// E603 a type whose elements are no tensors of a type that is read.
Result<StructureKind> kind_of(const onnx::TypeProto& type, const std::string& where);
/// As ONNX writes it: "seq(tensor(float))"
std::string type_text(const onnx::TypeProto& type);

/// Whether the operator takes or gives structures.
bool is_structure_op(std::string_view op);

}  // namespace fettle::onnx_reader
