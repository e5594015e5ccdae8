#pragma once
// Tensor expressions: what each element of a tensor is, without a word on how it is computed.
//
//   Tensor a = te::placeholder({n, k}, kF32, "A"), b = te::placeholder({k, m}, kF32, "B");
//   ReduceAxis r = te::reduce_axis(k, "k");
//   Tensor c = te::compute({n, m}, [&](const auto& i) { return te::sum(a(i[0], r) * b(r, i[1]), {r}); }, "C");
//   Func f = te::create_func("matmul", {a, b}, {c});        // create_func.h

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/buffer.h"
#include "ir/stmt.h"

namespace fettle::te {

struct OpNode;

/// A tensor is a buffer that knows how it is computed (op null: a placeholder).
struct TensorNode : BufferNode {
  Ref<const OpNode> op;
  int output = 0;  // which of the op's outputs
};

/// A shared handle.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<const TensorNode> node) : node_(std::move(node)), dtype_(node_->dtype) {}

  const std::string& name() const { return node_->name; }
  const std::vector<Expr>& shape() const { return node_->shape; }
  const Expr& dim(int d) const { return node_->shape[static_cast<size_t>(d)]; }
  int rank() const { return node_->rank(); }
  /// Of an element that is read.
  DType dtype() const { return dtype_; }
  /// Of an element in memory.
  DType stored_dtype() const { return node_->dtype; }
  /// The same tensor, whose elements are cast to `dtype` as they are read: nothing is stored anew.
  Tensor read_as(DType dtype) const;
  Buffer buffer() const { return node_; }
  const TensorNode* get() const { return node_.get(); }
  explicit operator bool() const { return static_cast<bool>(node_); }
  friend bool operator==(const Tensor&, const Tensor&) = default;

  /// An element; one index a dimension.
  Expr at(std::vector<Expr> indices) const;
  Expr operator()(const std::vector<Var>& indices) const { return at({indices.begin(), indices.end()}); }
  Expr operator()(std::vector<Expr> indices) const { return at(std::move(indices)); }
  template <class... Index>
    requires(std::is_convertible_v<Index, Expr> && ...)
  Expr operator()(const Index&... indices) const {
    return at(std::vector<Expr>{Expr(indices)...});
  }

 private:
  Ref<const TensorNode> node_;
  DType dtype_;
};

/// The range of a reduction.
struct ReduceAxis {
  Var var;
  Expr extent;
  operator Expr() const { return var; }
};
ReduceAxis reduce_axis(Expr extent, std::string name = "k");

inline Expr operator+(const ReduceAxis& a, Expr b) { return Expr(a) + std::move(b); }
inline Expr operator+(Expr a, const ReduceAxis& b) { return std::move(a) + Expr(b); }
inline Expr operator-(Expr a, const ReduceAxis& b) { return std::move(a) - Expr(b); }
inline Expr operator*(const ReduceAxis& a, Expr b) { return Expr(a) * std::move(b); }

/// state := combine(state, source) over all points of the axes, starting from `identity`. The states are as many
/// as the sources, each of its source's type.
struct Reduction {
  std::vector<Expr> sources;
  std::vector<Expr> identity;
  std::vector<Var> left, right;  // stand for a state and a source
  std::vector<Expr> combined;    // of left and right
  std::vector<ReduceAxis> axes;
};
using Combiner = std::function<std::vector<Expr>(const std::vector<Expr>& state, const std::vector<Expr>& source)>;

Reduction sum(Expr source, std::vector<ReduceAxis> axes);
Reduction prod(Expr source, std::vector<ReduceAxis> axes);
Reduction max(Expr source, std::vector<ReduceAxis> axes);
/// The greatest of what is not NaN, the lowest where all is: cheaper than max, for where NaN comes through otherwise.
Reduction ordered_max(Expr source, std::vector<ReduceAxis> axes);
Reduction min(Expr source, std::vector<ReduceAxis> axes);
/// Two states: the index (of its type) and the value; the first of equal values wins.
Reduction argmax(Expr index, Expr value, std::vector<ReduceAxis> axes);
Reduction argmin(Expr index, Expr value, std::vector<ReduceAxis> axes);
Reduction reduce(std::vector<Expr> sources, std::vector<Expr> identity, const Combiner& combine,
                 std::vector<ReduceAxis> axes);
/// The least and the greatest value of a type (infinities for floats).
Expr lowest(DType dtype);
Expr highest(DType dtype);

/// What a compute's function returns: one value, several, or a reduction.
struct Body {
  std::vector<Expr> values;
  std::optional<Reduction> reduction;
  Body(Expr value) : values{std::move(value)} {}
  Body(std::vector<Expr> v) : values(std::move(v)) {}
  Body(Reduction r) : reduction(std::move(r)) {}
  size_t outputs() const { return reduction ? reduction->sources.size() : values.size(); }
  DType dtype(size_t output) const { return reduction ? reduction->sources[output].dtype() : values[output].dtype(); }
};
using ElementFn = std::function<Body(const std::vector<Var>&)>;

Tensor placeholder(std::vector<Expr> shape, DType dtype = kF32, std::string name = "placeholder");
/// axis_names: of the loops; i0, i1, … where they are missing.
Tensor compute(std::vector<Expr> shape, const ElementFn& element, std::string name = "compute",
               std::vector<std::string> axis_names = {});
/// As compute, for a function of several values: tensors of one shape, computed together, named name.v0, name.v1, …
std::vector<Tensor> compute_many(std::vector<Expr> shape, const ElementFn& element, std::string name = "compute",
                                 std::vector<std::string> axis_names = {});

/// State along a first dimension of `steps`:
///   state[0, i…] = init(i…)        state[t, i…] = update(state, t, i…) for t in [1, steps)
/// `update` may read the states at any earlier step. Several states share one shape.
using StepFn = std::function<Body(const std::vector<Tensor>& states, const Expr& t, const std::vector<Var>& indices)>;
std::vector<Tensor> scan(Expr steps, std::vector<Expr> shape, const ElementFn& init, const StepFn& update,
                         std::string name = "scan", std::vector<std::string> axis_names = {});

/// State that each step writes over, and what each step leaves behind:
///   state[i…] = init(i…)        for t in [0, steps): state[i…], row[t, i…] = step(state[i…], t, i…)
/// A step reads of the states the one element that it makes anew. There may be no steps.
struct Step {
  std::vector<std::pair<Var, Expr>> lets;  // in order; a later one may name an earlier one
  std::vector<Expr> states, rows;          // of the lets' variables, each of which may be named many times
};
using RecurFn = std::function<Step(const std::vector<Expr>& states, const Expr& t, const std::vector<Var>& indices)>;
/// The states as the last step leaves them, then the rows.
std::vector<Tensor> recur(Expr steps, std::vector<Expr> shape, const ElementFn& init, const RecurFn& step,
                          std::string name = "recur", std::vector<std::string> axis_names = {});

/// Outputs by statements of one's own, for what no element function can say: one instance of `body` for each point of
/// `axes`. Instances of spatial axes may run in any order and at once: each writes elements of its own. Those of other
/// kinds keep their order. `body` gets the outputs' buffers, and reads tensors as usual. All of it is one block.
struct OutputSpec {
  std::vector<Expr> shape;
  DType dtype = kF32;
};
struct BlockAxis {
  Var var;
  Expr extent;
  IterKind kind = IterKind::kSpatial;
};
struct Statements {
  Stmt body;
  std::vector<Buffer> locals;  // live as long as an instance: small ones in scope register, at constant indices
  Statements(Stmt s, std::vector<Buffer> of_instance = {}) : body(std::move(s)), locals(std::move(of_instance)) {}
};
using StatementFn = std::function<Statements(const std::vector<Buffer>& outputs)>;
std::vector<Tensor> opaque(std::vector<OutputSpec> outputs, std::vector<BlockAxis> axes, const StatementFn& body,
                           std::string name = "opaque");

/// Outputs by a loop program of one's own: loops around blocks, in the order in which they run. `program` gets the
/// outputs' buffers, and reads tensors as usual. Every output is one that it has; what blocks touch is found anew.
using ProgramFn = std::function<Stmt(const std::vector<Buffer>& outputs)>;
std::vector<Tensor> nest(std::vector<OutputSpec> outputs, const ProgramFn& program, std::string name = "nest");

/// Elements written where data say. It begins with `init`; then, for each point of `updates` in row-major order:
///   out[place] = combine(out[place], value)      nothing where the place is outside of the output
/// An axis that is an index of the place by itself is spatial: its points meet in no element. All others are a scan.
/// combine: null replaces, so the last one wins.
struct Update {
  std::vector<Expr> place;
  Expr value;
  Expr condition = nullptr;  // where it does not hold, nothing is written
};
using UpdateFn = std::function<Update(const std::vector<Var>& axes)>;
using CombineFn = std::function<Expr(const Expr& old, const Expr& value)>;
Tensor scatter(std::vector<Expr> shape, const ElementFn& init, std::vector<Expr> updates, const UpdateFn& update,
               const CombineFn& combine = nullptr, std::string name = "scatter");

/// `t` surrounded by `value`: output extent before[d] + t.dim(d) + after[d].
///   select(likely(in bounds), t[i - before], value)
/// It is stored in the type in which `t` is, and read as `t` is.
Tensor pad(const Tensor& t, const std::vector<Expr>& before, const std::vector<Expr>& after, Expr value,
           std::string name = "pad");

/// How the tensors of one op are computed.
struct OpNode : RefCounted {
  enum class Kind : uint8_t { kCompute, kScan, kRecur, kOpaque, kNest };
  Kind kind = Kind::kCompute;
  std::string name;
  std::vector<OutputSpec> outputs;
  std::vector<Var> axes;   // of the outputs' dimensions; kScan: without the first
  std::vector<Body> body;  // one; kOpaque, kNest: none
  // kScan, kRecur, kOpaque, kNest
  std::vector<Body> init;      // one; kOpaque: or none; kNest: none
  std::vector<Buffer> states;  // stand for the outputs inside the body
  // kScan, kRecur
  Var step;  // kScan: t - 1
  // kRecur
  Expr steps;
  std::vector<std::pair<Var, Expr>> lets;  // around the body
  // kOpaque, kNest
  std::vector<BlockAxis> block_axes;  // kNest: none
  Statements statements = Stmt();
};

}  // namespace fettle::te
