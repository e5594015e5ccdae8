#pragma once
// Models that are built in memory, one node after another, of ONNX's operators.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"

namespace fettle {

class ModelBuilder;

/// A value of a model that is being built.
struct BuilderValue {
  std::shared_ptr<ModelBuilder> graph;
  int index = 0;
};

/// An extent: open, a number, or a size that has a name.
using BuilderDim = std::variant<std::monostate, int64_t, std::string>;

/// What an attribute is given. ONNX's table says what becomes of it: integers are floats where these are asked for, and
/// the name of a type ("f32") is its number.
using BuilderAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                                      std::vector<std::string>, DType, ConstantTensor, std::shared_ptr<ModelBuilder>>;

struct BuilderNode {
  std::string op, domain;                           // "Conv", "" or "com.microsoft"
  std::vector<std::optional<BuilderValue>> inputs;  // nothing: left out
  int n_outputs = 1;
  std::vector<std::pair<std::string, BuilderAttribute>> attributes;
  std::string name;  // empty: after the operator
};

/// A model, or a body of one of its nodes. Each node is checked beside ONNX's table when it is added (model_check.h).
/// A body may use values of the graphs around it, and is finished when it becomes one. Constants share the memory that
/// they are given in.
class ModelBuilder : public std::enable_shared_from_this<ModelBuilder> {
 public:
  /// E609 an opset that is not read.
  static Result<std::shared_ptr<ModelBuilder>> make(std::string name, int opset = kMaxOpset);

  /// dtype, shape: nothing where a body leaves open what it is given. E605 the name is taken · E606 no name
  Result<int> add_input(const std::string& name, std::optional<DType> dtype,
                        const std::optional<std::vector<BuilderDim>>& shape);
  Result<int> add_constant(const std::string& name, const ConstantTensor& data);
  /// The node's outputs. E603 no such operator · E605, E606 inputs or attributes that it cannot have · E709 a graph
  /// that is a body already
  Result<std::vector<int>> add_node(const BuilderNode& node);
  /// E605 the name is taken
  Result<> add_output(const std::string& name, const BuilderValue& value);

  /// The model as it stands; the builder may be used on. E605 no outputs, or values of a graph that is not around
  Result<OnnxModel> finish() const;

  const std::string& name() const;
  int opset() const;
  int n_nodes() const;
  std::string value_name(int value) const;
  /// As far as operators and attributes tell it.
  std::optional<DType> dtype_of(int value) const;
  /// By inference over all that there is so far; it is done again where nodes were added since.
  /// Errors: of importing, of inference · E604 it is no tensor
  Result<TensorType> type_of(int value);
  /// Names and types of inputs and outputs, and nodes, for people to read.
  std::string to_text() const;

  struct State;
  explicit ModelBuilder(std::unique_ptr<State> state);
  ~ModelBuilder();

 private:
  Result<> check_open() const;
  /// What is read from another graph is captured.
  const std::string& use(const BuilderValue& value);
  Result<> take_body(const ModelBuilder& body);
  Result<> infer();

  std::unique_ptr<State> state_;
};

}  // namespace fettle
