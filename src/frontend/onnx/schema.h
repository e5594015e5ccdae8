#pragma once
// What ONNX says of its operators: a table of all versions, made from the onnx package when Fettle is built.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fettle::onnx_reader {

struct AttributeSchema {
  std::string_view name;
  int kind;  // AttributeProto.AttributeType
  bool is_required;
};

/// An input or output, or the last of them, which stands for any number.
struct FormalSchema {
  enum Option : uint8_t { kSingle, kOptional, kVariadic };
  std::string_view name;
  std::string_view variable;                // "T": all that bear it have one type; empty: it is on its own
  std::span<const std::string_view> types;  // "tensor(float)", "seq(tensor(int64))", …
  Option option;
};

/// One version of an operator.
struct OperatorSchema {
  std::string_view domain;  // empty: ONNX's own
  std::string_view name;
  int since_version;
  bool is_deprecated;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  std::span<const FormalSchema> inputs, outputs;
  std::span<const AttributeSchema> attributes;  // by name

  /// The input or output `i`, or null where there is none.
  static const FormalSchema* formal(std::span<const FormalSchema> formals, int i);
};

/// The operator as opset `version` of its domain has it; of one that went out of use, its last version before, or the
/// only one. Null: there is none.
const OperatorSchema* find_schema(std::string_view domain, std::string_view name, int64_t version);
/// All operators that opset `version` of the domain has.
std::vector<const OperatorSchema*> schemas_of(std::string_view domain, int64_t version);
/// The newest opset of a domain in the table.
int newest_opset(std::string_view domain);
/// The opset that the operator comes with; 0: ONNX knows of none.
int first_version(std::string_view domain, std::string_view name);
/// Whether operators of this domain are in the table.
bool is_onnx_domain(std::string_view domain);
int64_t newest_ir_version();

}  // namespace fettle::onnx_reader
