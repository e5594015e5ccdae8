#pragma once
// Operators: what a node computes. The vocabulary is ONNX's operator set, newest opset; a few operators of Fettle's
// own (HardSwish variants, fused patterns) have names that ONNX does not use.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "ir/func.h"
#include "te/create_func.h"

namespace fettle {

/// How an operator may be fused with its neighbours, weakest bond first.
enum class FusionKind : uint8_t {
  kElementwise,        // out[i] depends on in[i]
  kBroadcast,          // out[i] depends on in[f(i)], f drops axes
  kInjective,          // out[i] depends on in[f(i)]: transpose, slice, concat, …
  kReduction,          // pooling, sums, softmax, norms
  kComplexOutFusable,  // convolution, matmul: elementwise consumers may join the output
  kOpaque,             // not fused
};
std::string_view to_string(FusionKind kind);

/// An input whose content must be, or may be, known at compile time. Shape inference turns a constant one into the
/// attribute `attr`, unless this is empty, and drops the input ("Reshape(x, shape)" → "Reshape(x) {shape=…}"), so that
/// afterwards every input left is data for a kernel.
struct ParamInput {
  int index;
  std::string_view attr;
  enum class Kind : uint8_t {
    kInts,
    kInt,
    kDims,  // integers that sizes may stand for: extents or indices
    kFloat,
    kFloats,
    kTensor,
  } kind;
};

/// What an operator does with elements.
enum class ElementWork : uint8_t {
  kComputes,  // arithmetic: of halves in single precision
  kMoves,     // each element that goes out is one that came in, or a constant: of any type, as it is
  kConverts,  // types are what the operator is for, rounding included: it alone takes small types (small_types.h)
};

/// The type in which elements of `dtype` are computed. Halves (f16, bf16) lie in memory only: kernels read them as
/// single precision, and round once, where they store a result.
inline DType computed_dtype(DType dtype) { return dtype.is_float() && dtype.bits < 32 ? kF32 : dtype; }

/// What an operator does with images, [n, c, spatial dims…]. The planner decides how these lie in memory.
enum class ImageWork : uint8_t {
  kNone,                   // it does not know of images
  kConvolution,            // of windows, with weights
  kTransposedConvolution,  // spreads each pixel by weights
  kPooling,                // of windows
  kGlobalPooling,          // of all pixels
  kResampling,
};

/// Of an operator whose work a function of the run-time system does (rt/host.h): the host program calls it as it calls
/// kernels, and so does whoever evaluates a graph.
struct HostRule {
  const char* function;
  /// Whether it does this node's work; null: of every node. Of others `compute` does.
  bool (*applies)(const Node& node) = nullptr;
  /// The integers that it is given beside the tensors, which have small absolute values. Null: none.
  std::vector<int64_t> (*numbers)(const Node& node) = nullptr;
  /// The program that runs the model has a part in it: only a run knows what it does.
  bool only_runs = false;
};

struct View;  // view.h
/// How an operator only renames memory: its outputs are its one input's elements, where they lie.
struct ViewRule {
  /// The outputs as views of the input's memory, or nothing where its strides do not allow it.
  std::optional<std::vector<View>> (*outputs)(const Node& node, const View& input);
  /// The other way round: where the input has to lie for the output to lie at `output`. Null: an operator whose outputs
  /// are parts of the input.
  std::optional<View> (*input)(const Node& node, const View& output) = nullptr;
};

/// The weights of an operator that is linear in input 0 are its input 1. Their dims are the channels of output and
/// input (in either order), and those of a window.
struct WeightsRule {
  int channel_dim;  // of the weights: the output's channels, of one group where it is not the first
  int output_dim;   // of the result: its channels; from the end where negative
  bool takes_bias;  // input 2: what is added to each channel
};

/// An operator: its rule of types, what it computes, and traits, which passes and planner ask. A new operator is
/// whatever its traits say; left out, they promise nothing.
struct OpDef {
  std::string_view name = {};
  FusionKind fusion = FusionKind::kOpaque;
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  /// Types of the outputs from the inputs' types, attributes and known contents. Output dtypes included.
  /// E604 a content that is needed is unknown · E605 types do not agree · E606 attributes are invalid
  Result<std::vector<TensorType>> (*infer)(const Node& node) = nullptr;
  /// The outputs as tensor expressions over `inputs`, one a node input, undefined where that is null. Extents that are
  /// open are size_expr()s, and the outputs are typed. Types are computed_dtype()s, the node's too, unless `work` says
  /// otherwise.
  /// Null: of control flow, which the planner runs (graph/control.h), of host functions, and of what is lowered.
  Result<std::vector<te::Tensor>> (*compute)(const Node& node, std::span<const te::Tensor> inputs) = nullptr;
  /// Of an operator that others stand for: puts nodes in the node's place, before types are inferred (its inputs' are
  /// known), and returns them in order. Errors as those of infer. Null: it is one of a program's.
  Result<std::vector<Node*>> (*lower)(Graph& graph, Node* node) = nullptr;
  /// As lower, where what the node depends on comes to be known while the model runs; nothing where it is known, or can
  /// be a size. Null: such a node is refused.
  Result<std::optional<std::vector<Node*>>> (*lower_by_data)(Graph& graph, Node* node) = nullptr;
  std::span<const ParamInput> params = {};
  /// Outputs; -1: as many as the node has.
  int n_outputs = 1;
  /// Elements of a small integer output from its inputs' contents, for shape arithmetic; null: none known.
  std::optional<std::vector<Dim>> (*content)(const Node& node) = nullptr;

  ElementWork work = ElementWork::kComputes;
  const HostRule* host = nullptr;
  /// Whether this node takes strings although it is neither `kMoves` nor a host function's: it only moves them,
  /// compares them for equality, or does not look at them. Null: never.
  bool (*takes_strings)(const Node& node) = nullptr;
  /// Element i of the one output depends on element i of each input alone, where inputs broadcast as NumPy's do.
  bool is_pointwise = false;
  /// Of two inputs, either may come first.
  bool is_commutative = false;
  /// The output has the input's elements in the same order, under another shape.
  bool is_reshape = false;
  /// The output is the inputs side by side along the attribute `axis`: they may be made where it lies.
  bool is_concatenation = false;
  ImageWork image = ImageWork::kNone;
  const ViewRule* view = nullptr;
  const WeightsRule* weights = nullptr;
  /// Whether this node's output, where it has the type of input 0, is input 0. Null: never.
  bool (*is_copy)(const Node& node) = nullptr;
  /// Whether each pixel of the output is one of input 0, which index arithmetic finds: what reads it pixel by pixel
  /// may then read the input instead. Null: never.
  bool (*maps_pixels)(const Node& node) = nullptr;
  /// Whether this node must not run where nothing needs it: it divides integers, or reads what may not be there. Null:
  /// it may always run.
  bool (*is_partial)(const Node& node) = nullptr;
  /// Graphs of elements that it takes, which a model's node has as attributes: of each that a node has, one of its
  /// bodies is called so. What they capture are the node's last inputs. None: of control flow, too.
  std::span<const std::string_view> body_names = {};
};

/// Operators of one kind: one file in graph/ops/.
struct OpFamily {
  std::string_view name;
  std::span<const OpDef> ops;
};

/// Every family, from the sources in graph/ops/.
std::span<const OpFamily* const> op_families();
/// The operator named `name` ("Conv"), or null.
const OpDef* find_op(std::string_view name);

/// The fusion kind of this node: a Broadcast operator whose inputs all have the output's shape is Elementwise.
FusionKind fusion_kind(const Node& node);

/// Whether a function of the run-time system does the node's work.
bool is_host(const Node& node);
/// The integers that it is given (rt/host.h): which tensors there are, and the operator's numbers. The node is typed.
std::vector<Dim> host_integers(const Node& node);
/// The node takes strings, where it has some. E605.
Result<> check_strings(const Node& node);

/// The node's outputs as tensor expressions: node.op->compute, for values that are typed. E604. Open sizes need a
/// SizeVars that lives.
/// inputs:  one a node input, undefined where that is null. Halves may come as they lie in memory, or as they were
///          computed: in single precision, by another node of the same kernel.
/// Outputs that are halves may be of single precision: see rounded().
Result<std::vector<te::Tensor>> node_compute(const Node& node, std::span<const te::Tensor> inputs);
/// `t` as `dtype`, in which it is stored: the one rounding of what a kernel computes.
te::Tensor rounded(const te::Tensor& t, DType dtype);
/// A placeholder of the value's type, named after it.
te::Tensor placeholder_for(const Value& value);
/// The program of operators' tensor expressions; `name` of a node or group, for the error.
/// E605 an operator does not compute with the types that it is given
Result<Func> program_of(const std::string& func_name, const std::vector<te::Tensor>& inputs,
                        const std::vector<te::Tensor>& outputs, const te::FuncOptions& options,
                        const std::string& name);
/// The node alone as a program: parameters are its non-null inputs in order (each value once), then its outputs.
/// Inputs that are constants have ParamKind::kConstant. E604 · E605 the operator does not compute with these types.
Result<Func> node_func(const Node& node);

}  // namespace fettle
