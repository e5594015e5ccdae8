#pragma once
// How a StableHLO program becomes a graph: what import.cpp and the families of operators share.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/stablehlo/counters.h"
#include "frontend/stablehlo/import.h"
#include "graph/passes/lowering.h"

namespace fettle::stablehlo {

using Values = std::vector<Value*>;
using Ints = std::vector<int64_t>;

/// What a value of a program is in the graph.
struct Tensor {
  Value* re = nullptr;  // null: a token, or a tuple
  Value* im = nullptr;  // the imaginary part of complex numbers
  std::shared_ptr<const Quantization> quantization = nullptr;
  std::vector<Tensor> parts = {};  // of a tuple

  bool is_complex() const { return im != nullptr; }
};
using Tensors = std::vector<Tensor>;

/// Calls `visit` with each value of the graph that tensors are made of, in order; it may change them.
template <typename T, typename Visit>
void for_each_part(T& tensor, const Visit& visit) {
  if (tensor.re) visit(tensor.re);
  if (tensor.im) visit(tensor.im);
  for (auto& part : tensor.parts) for_each_part(part, visit);
}

inline Value* part_of(const Tensor& tensor, bool imaginary) { return imaginary ? tensor.im : tensor.re; }

/// The graph that nodes are added to: the program's, or a body in the one around.
struct Scope {
  Graph graph;
  Scope* around = nullptr;
  int depth = 0;
  int64_t number = 0;    // of all that one import has made
  bool repeats = false;  // a body that runs several times a call
  struct Captured {
    Value *outside, *inside;
  };
  std::vector<Captured> captured = {};                     // the body's last inputs
  std::unordered_map<const Value*, Value*> captures = {};  // by what is outside; constants among them
  std::unordered_map<const Value*, Value*> narrow = {};    // of what was broadcast: what it was before
  std::unordered_map<const Value*, Progression> progressions = {};
  std::unordered_map<const Value*, RowUpdate> updates = {};  // by what was made
  Value* effects = nullptr;  // what the last call with an effect left, which the next is given; null: there was none
};

/// A function that is being inlined.
struct Frame {
  const Function* function = nullptr;
  Frame* caller = nullptr;
  struct Place {
    Tensor tensor;
    int64_t scope;            // its number
    bool is_missing = false;  // what makes it fails
  };
  std::unordered_map<ValueId, Place> values = {};
};

class OpImport;
using OpFunction = Result<Tensors> (*)(OpImport& o);
/// What is made of an operator: one of a family's table.
struct OpEntry {
  std::string_view name;  // "stablehlo.add"; of a custom_call also its target: "stablehlo.custom_call @Sharding"
  OpFunction import;
};
/// Entries of one source of this folder. The table of all is generated.
struct OpEntries {
  std::span<const OpEntry> list;
};
std::span<const OpEntries* const> op_entries();
/// Null: it is not known.
const OpEntry* find_entry(const Op& op);
/// The operator's results. What is quantized, and is not known to its function, is so behind it and not before it.
Result<Tensors> import_with(OpImport& o, const OpEntry& entry);
/// A call of the host program that is not for its results alone.
bool is_host_effect(const Op& op);
/// As find_entry knows it, for errors.
std::string label_of(const Op& op);

/// One walk through a module.
class Importer {
 public:
  /// function: which becomes the graph, as import_stablehlo has it.
  Importer(const Module& module, const Limits& limits, std::string_view function)
      : module_(module), limits_(limits), function_(function) {}
  Result<Graph> run();
  /// Why there is no graph: as run() says, but of all operators that take nothing that depends on others that fail.
  std::vector<Diagnostic> problems();

  Scope& scope() { return *scope_; }
  const Limits& limits() const { return limits_; }
  const Module& module() const { return module_; }

  /// The operators of a block, whose arguments are these; what its last one returns.
  Result<Tensors> import_block(const Block& block, const Tensors& arguments);
  /// The same of a region.
  Result<Tensors> import_region(const Region& region, const Tensors& arguments);
  Result<Tensors> call(const std::string& function, const Tensors& arguments, const std::string& location);
  /// A body in the current graph, which is current while `fill` runs.
  Result<> in_body(Scope& body, std::string name, const std::function<Result<>()>& fill);
  /// What the function that is being inlined calls so, in the current graph. E605 it is not made yet
  Result<Tensor> value_of(ValueId id);
  /// Whether the region calls the host program for an effect. Such calls are made one after the other: each takes what
  /// the one before it left, so loops carry it, branches return it, and the program's last output is the last of it.
  bool has_effects(const Region& region);
  /// In the current graph.
  Value* effects() { return effects(*scope_); }
  /// Tensors of random numbers, drawn anew in each call of the model: the number of the call, in the current graph, and
  /// a number of their own. E603 they are drawn in a loop
  struct Draw {
    Value* calls;
    int64_t stream;
  };
  Result<Draw> draw();
  /// The value in the current graph, captured from around where it lies there.
  Value* reach(Value* value, Scope* owner) { return reach(value, owner, *scope_); }

 private:
  Result<> import_op(const Op& op);
  void note(Diagnostic problem);
  Value* reach(Value* value, Scope* owner, Scope& in);
  Value* effects(Scope& scope);
  bool has_effects(const Block& block);
  Result<Tensor> add_input(const Function& function, size_t i, const Type& type, const std::string& name);
  Result<> add_output(const std::string& name, const Tensor& tensor);

  const Module& module_;
  const Limits& limits_;
  const std::string_view function_;
  Scope* scope_ = nullptr;
  Frame* frame_ = nullptr;
  std::vector<Diagnostic>* problems_ = nullptr;  // null: the first one ends the import
  bool is_placed_ = false;                       // the error that ends it says where it stands
  int64_t n_ops_ = 0, n_scopes_ = 0, n_draws_ = 0;
  Value* random_calls_ = nullptr;                           // of the program's graph, where random numbers ask for it
  std::unordered_map<const Function*, bool> with_effects_;  // those that were looked at
};

/// One operator, while its nodes are added. Errors of these nodes need not be looked at.
class OpImport {
 public:
  OpImport(Importer& importer, const Op& op, Tensors operands);

  Importer& importer;
  const Op& op;
  Tensors in;
  Node node;  // for names and provenance
  passes::Lowering g;

  /// Operand i, which is real. E603
  Result<Value*> real(size_t i) const;
  bool is_complex(size_t i) const { return in[i].is_complex(); }
  /// Of a result that the program does not have, a number's: import_op refuses it when it is made.
  const Type& result_type(size_t i = 0) const {
    static const Type number_type{.element = {.dtype = kF32}};
    return i < op.result_types.size() ? op.result_types[i] : number_type;
  }
  DType result_dtype(size_t i = 0) const { return result_type(i).element.dtype; }
  /// The result's shape as its type has it. E604 where an extent is open, for which `open` has none.
  Result<Shape> result_shape(size_t i = 0, const Shape* open = nullptr) const;

  // Attributes, and what they are where they are missing.
  Ints ints(std::string_view name, Ints otherwise = {}) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double real_number(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name, std::string otherwise = {}) const;  // of strings, symbols, enumerators
  const Attributes* fields(std::string_view name) const;
  tl::unexpected<Diagnostic> refuse(std::string message) const;    // E603
  tl::unexpected<Diagnostic> mistaken(std::string message) const;  // E606

  /// x under a shape that it broadcasts to, dims from the right. The same value where it has it already.
  Value* expand(Value* x, const Shape& shape);
  /// A whole number of this type, of 64 bits as they are.
  Value* integer_constant(uint64_t bits, DType dtype) const;
  Value* number(double value, DType dtype) const { return g.number(value, dtype); }
  /// As g(…), but takes what was broadcast as it was before, where another operand has the shape.
  Value* elementwise(std::string_view op, Values inputs, Attrs attrs = {});
  /// A node of an operator that others stand for, or of control flow, whose outputs are of these types. Where an extent
  /// is kDynamic, those who stand for it are put in its place at once, and tell it.
  Result<Values> add(std::string_view op, Values inputs, Attrs attrs, const std::vector<TensorType>& types,
                     std::span<Scope> bodies = {});
  /// The same of one output.
  Result<Value*> add_one(std::string_view op, Values inputs, Attrs attrs, const TensorType& type);
  /// Types of the parts of the results: kDynamic where they are open.
  std::vector<TensorType> part_types() const;
  /// One result: the same of each part of operand 0.
  Result<Tensors> of_parts(const std::function<Result<Value*>(Value* part)>& function) const;
  /// Parts of the results, as add() gives them.
  Tensors as_results(const Values& parts) const;
  /// The region as a body of single elements, of the types of its block's arguments. in_pairs: the parts of complex
  /// numbers are left and right of the first, then of the second.
  Result<> element_body(Scope& body, std::string name, const Region& region, bool in_pairs = false);
  /// The same of the one function that the operator names.
  Result<> element_body_of_call(Scope& body, std::string name);

 private:
  using Import = std::function<Result<Tensors>(const Tensors& arguments)>;
  Result<> element_body(Scope& body, std::string name, const std::vector<Type>& types, const Import& import,
                        bool in_pairs);
};

Ints field_ints(const Attributes* fields, std::string_view name);
int64_t field_int(const Attributes* fields, std::string_view name, int64_t otherwise = 0);

// quantized.cpp
/// The real numbers that integers stand for; the same tensor where it is not quantized.
Result<Tensor> dequantized(OpImport& o, const Tensor& tensor);
Result<Tensor> quantized(OpImport& o, const Tensor& tensor, std::shared_ptr<const Quantization> quantization);

/// What integers of an index or shape operand are: numbers, or sizes.
std::vector<Dim> dims_of(OpImport& o, Value* integers);
/// The same of operand i, row by row, whose integers may be negative.
Result<Shape> sizes_of(OpImport& o, size_t i);
/// The same, all of them numbers. what: one of them is, in an error. E604 one is not known
Result<Ints> numbers_of(OpImport& o, size_t i, std::string_view what);

}  // namespace fettle::stablehlo
