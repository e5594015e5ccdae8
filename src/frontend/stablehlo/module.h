#pragma once
// StableHLO programs in memory, as its text and its portable bytecode have them: the form that both readers make, and
// that the importer reads. Names of operators and attributes are those of the generic form, of StableHLO's newest
// version; what older versions say is brought to it by the readers.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/constant.h"
#include "ir/type.h"

namespace fettle::stablehlo {

/// Real numbers that integers stand for: real = (integer - zero point) * scale.
struct Quantization {
  DType storage;    // of the integers
  DType expressed;  // of the real numbers
  int64_t storage_min = 0, storage_max = 0;
  std::vector<double> scales;             // one, one for each index of `dims[0]`, or one a block, row by row
  std::vector<int64_t> zero_points;       // as many
  std::vector<int64_t> dims = {};         // those that scales differ along; none: one scale for all
  std::vector<int64_t> blocks = {};       // elements of each of `dims` that share a scale; none: 1
  std::vector<int64_t> scale_shape = {};  // of blocks: scales along each dim of the tensor
  friend bool operator==(const Quantization&, const Quantization&) = default;
};

/// What one element is.
struct ElementType {
  DType dtype = kF32;       // of each part, where it is complex; of the storage, where it is quantized
  bool is_complex = false;  // two parts: real, imaginary
  bool is_index = false;    // `index`, which is i64 here
  std::shared_ptr<const Quantization> quantization = nullptr;
  /// A type that no DType is ("tf32", "f6E2M3FN"): what is of it is refused by this name. Empty: there is a DType.
  std::string unknown = {};
};

inline constexpr int64_t kDynamic = -1;

struct Type {
  enum class Kind : uint8_t { kTensor, kScalar, kToken, kTuple, kFunction, kNone } kind = Kind::kTensor;
  ElementType element = {};          // of tensors and scalars
  bool is_ranked = true;             // a tensor<*xf32> is not
  std::vector<int64_t> shape = {};   // extents; kDynamic: open
  std::vector<int64_t> bounds = {};  // #stablehlo.bounds: as many as extents, kDynamic where there is none; or nothing
  std::vector<Type> inputs = {};     // of a tuple: its elements; of a function: its parameters
  std::vector<Type> results = {};    // of a function

  std::string to_string() const;  // "tensor<2x?xcomplex<f32>>"
};

struct Attribute;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

/// dense<…> : tensor<…>. A complex element is two of the last dim, which the type does not have.
struct DenseElements {
  Type type;
  ConstantTensor data;  // of shape `type.shape`, or a single element where it is a splat
  bool is_splat = false;
};
/// An enumerator of StableHLO's or CHLO's: {"comparison_direction", "EQ"}.
struct EnumValue {
  std::string kind, value;
};
/// #stablehlo.dot<…>, .conv, .gather, .scatter, .channel_handle, .output_operand_alias, .result_accuracy, …: fields by
/// the names that StableHLO's own text has. All fields of numbers are there, as their default where they are left out.
/// Of "conv": input_batch_dimension, input_feature_dimension, input_spatial_dimensions, kernel_input_feature_dimension,
/// kernel_output_feature_dimension, kernel_spatial_dimensions, output_batch_dimension, output_feature_dimension,
/// output_spatial_dimensions.
struct StructValue {
  std::string kind;  // "dot"
  Attributes fields;

  // Defined behind Attribute, of which it is a part.
  StructValue();
  StructValue(std::string kind, Attributes fields);
  StructValue(const StructValue& other);
  StructValue(StructValue&& other) noexcept;
  StructValue& operator=(const StructValue& other);
  StructValue& operator=(StructValue&& other) noexcept;
  ~StructValue();
};
struct SymbolRef {
  std::string name;  // without the "@"
};
/// Of a dialect that nobody here knows ("sdy.mesh"), as text: whoever needs it refuses it by name.
struct OpaqueValue {
  std::string dialect, text;
};
struct UnitValue {};

struct Attribute {
  using Content = std::variant<UnitValue, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<Attribute>, Attributes, DenseElements, Type, EnumValue,
                               StructValue, SymbolRef, OpaqueValue>;
  Content value;

  // Defined where attributes, of which lists are parts, are complete.
  Attribute();
  Attribute(Content content);
  Attribute(const Attribute& other);
  Attribute(Attribute&& other) noexcept;
  Attribute& operator=(const Attribute& other);
  Attribute& operator=(Attribute&& other) noexcept;
  ~Attribute();

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
};
inline Attribute::Attribute() = default;
inline Attribute::Attribute(Content content) : value(std::move(content)) {}
inline Attribute::Attribute(const Attribute& other) = default;
inline Attribute::Attribute(Attribute&& other) noexcept = default;
inline Attribute& Attribute::operator=(const Attribute& other) = default;
inline Attribute& Attribute::operator=(Attribute&& other) noexcept = default;
inline Attribute::~Attribute() = default;
inline StructValue::StructValue() = default;
inline StructValue::StructValue(std::string of_kind, Attributes with_fields)
    : kind(std::move(of_kind)), fields(std::move(with_fields)) {}
inline StructValue::StructValue(const StructValue& other) = default;
inline StructValue::StructValue(StructValue&& other) noexcept = default;
inline StructValue& StructValue::operator=(const StructValue& other) = default;
inline StructValue& StructValue::operator=(StructValue&& other) noexcept = default;
inline StructValue::~StructValue() = default;

/// Null where it is missing.
const Attribute* find_attribute(const Attributes& attributes, std::string_view name);
/// Puts them in the order of their names. The name of one that stands twice, or null.
const std::string* sort_by_name(Attributes& attributes);

/// Values are numbers, each of one function: results of operators, and arguments of blocks, as they come.
using ValueId = int32_t;

struct Op;

struct Block {
  std::vector<ValueId> arguments;
  std::vector<Type> argument_types;
  std::vector<Op> ops;  // the last one ends it: "stablehlo.return", "func.return"
};
/// StableHLO has regions of one block.
struct Region {
  std::vector<Block> blocks;
};

struct Op {
  std::string name;  // "stablehlo.add", "chlo.erf", "func.call", "check.expect_close"
  std::vector<ValueId> operands;
  std::vector<Type> operand_types;
  std::vector<ValueId> results;
  std::vector<Type> result_types;
  Attributes attributes;
  std::vector<Region> regions;
  /// Where it stands: "line 12, column 3" of text, or what the file's own location says. For errors, and the graph's
  /// provenance.
  std::string location;
  /// "line 12, column 3" of text, whatever the file says of itself; empty in bytecode.
  std::string place = {};
};

struct Function {
  std::string name;
  bool is_public = true;
  Block body;  // its arguments are the function's
  std::vector<Type> result_types;
  std::vector<Attributes> argument_attributes, result_attributes;  // "jax.result_info", "tf.aliasing_output", …
};

struct Module {
  std::string name;
  Attributes attributes;
  std::vector<Function> functions;
  /// The version that the bytes say; text says none.
  std::string version;

  const Function* find(std::string_view function) const;
};

}  // namespace fettle::stablehlo
