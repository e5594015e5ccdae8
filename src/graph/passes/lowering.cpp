#include "graph/passes/lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/evaluate.h"
#include "graph/late_sizes.h"
#include "graph/op_registry.h"
#include "graph/passes/fold_node.h"

namespace fettle::passes {

namespace {
// A node that takes more iterations of loops is left to fold_constants, which has limits of its own.
constexpr int64_t kMostStepsAtOnce = int64_t{1} << 24;

// What a node makes of constants.
Result<std::vector<ConstantTensor>> evaluated(const Node& node) {
  std::vector<ConstantTensor> inputs;
  for (const Value* input : node.inputs)
    if (input) inputs.push_back(*input->constant);
  return evaluate_node(node, inputs, interpreter_executor(kMostStepsAtOnce));
}
}  // namespace

std::vector<Value*> Lowering::many(std::string_view op, std::vector<Value*> inputs, Attrs attrs, size_t n_outputs) {
  if (status_ && added().size() >= kMostNodes)
    status_ = fail(ErrorCode::E608, fmt::format("the operator stands for more than {} nodes", kMostNodes), node_.name);
  if (!status_) return std::vector<Value*>(n_outputs, &nothing_);
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Node* node = nodes_.add(op, short_name(*find_op(op)), std::move(inputs), std::move(attrs), n_outputs);
  status_ = check_strings(*node);
  if (!status_) return std::vector<Value*>(n_outputs, &nothing_);
  auto types = node->op->infer(*node);
  if (!types) {
    status_ = fail(std::move(types.error()));
    return std::vector<Value*>(n_outputs, &nothing_);
  }
  for (size_t i = 0; i < n_outputs; ++i) node->outputs[i]->type = (*types)[i];
  if (n_outputs == 1) node->output()->content = known_content(*node);
  if (folds_at_once(*node))
    if (auto known = evaluated(*node)) {
      std::vector<Value*> constants;
      for (size_t i = 0; i < n_outputs; ++i)
        constants.push_back(nodes_.graph().add_constant(node->outputs[i]->name, std::move((*known)[i])));
      nodes_.graph().erase(node);
      return constants;
    }
  return node->outputs;
}

Value* Lowering::operator()(std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  return many(op, std::move(inputs), std::move(attrs), 1)[0];
}

Value* Lowering::cast(Value* x, DType dtype) {
  return x->dtype() == dtype ? x : (*this)("Cast", {x}, {{{"to", onnx_number(dtype)}}});
}

Value* Lowering::reshape(Value* x, Shape shape) {
  return x->shape() == shape
             ? x
             : (*this)("Reshape", {x}, {{{"shape", dims_attr(std::move(shape))}, {"allowzero", int64_t{1}}}});
}

Value* Lowering::slice(Value* x, int64_t axis, Dim start, Dim end) {
  Attrs attrs;
  attrs.set("starts", dims_attr({std::move(start)}));
  attrs.set("ends", dims_attr({std::move(end)}));
  attrs.set("axes", std::vector<int64_t>{axis});
  return (*this)("Slice", {x}, std::move(attrs));
}

Value* Lowering::reduce(std::string_view op, Value* x, std::vector<int64_t> axes, bool keep_dims) {
  if (axes.empty()) return x;
  return (*this)(op, {x}, {{{"axes", std::move(axes)}, {"keepdims", int64_t{keep_dims}}}});
}

std::vector<Dim> Lowering::sizes_of(Value* value, int64_t min, int64_t max) {
  if (!status_) return {min};
  // What a host function makes of constants is known before the node is folded.
  const auto is_constant = [](const Value* input) { return !input || input->is_constant(); };
  if (const Node* maker = value->producer;
      maker && !ops::content_of(*value) && is_host(*maker) && std::ranges::all_of(maker->inputs, is_constant))
    if (const auto results = evaluated(*maker)) {
      const std::vector<int64_t> known = to_ints((*results)[static_cast<size_t>(value->producer_output)]);
      value->content = std::vector<Dim>(known.begin(), known.end());
    }
  make_sizes(value, min, max);
  return status_ ? *ops::content_of(*value) : std::vector<Dim>(1, min);
}

Value* Lowering::size(const Dim& dim) {
  return dim.is_number() ? index(dim.value()) : reshape((*this)("SizeList", {}, {{{"sizes", dims_attr({dim})}}}), {});
}

void Lowering::make_sizes(Value* integers, int64_t min, int64_t max, int64_t typical) {
  if (status_ && !define_sizes(nodes_.graph(), integers, min, max, typical))
    status_ = fail(ErrorCode::E604, fmt::format("\"{}\" cannot be sizes", integers->name), node_.name);
}

void Lowering::make_sizes(Value* integers, Shape dims) {
  if (status_) nodes_.remember(add_size_definition(nodes_.graph(), integers, std::move(dims)));
}

std::vector<Dim> Lowering::sizes(Value* integers, int64_t min, int64_t max) {
  make_sizes(integers, min, max);
  return status_ ? *ops::content_of(*integers) : std::vector<Dim>(1, Dim(0));
}

Value* Lowering::reshape_by_data(Value* x, Value* shape) {
  // Usual sizes are such that there are not more than some 2^20 elements, however many sizes there are.
  constexpr int64_t kBits = 20, kMostBits = 7;
  const int64_t count = shape->is_static() ? std::max<int64_t>(1, element_count(shape->shape()).value()) : 1;
  make_sizes(shape, 0, kMaxDim, int64_t{1} << std::min(kMostBits, kBits / count));
  return status_ ? reshape(x, *ops::content_of(*shape)) : &nothing_;
}

void Lowering::require(Value* truth, std::string reason) {
  if (!status_) return;
  Value* number = cast(truth, kI64);
  const auto known = ops::content_of(*number);
  if (known && known->front() == Dim(1)) return;
  if (known && known->front() == Dim(0)) {
    status_ = fail(ErrorCode::E605, std::move(reason), node_.name);
    return;
  }
  Node* check = add_size_definition(nodes_.graph(), number, {1});
  check->attrs.set(kReasonKey, std::move(reason));
  nodes_.remember(check);
}

void Lowering::require_all(Value* truths, std::string reason) {
  const Shape shape = truths->shape();
  Value* least = reduce("ReduceMin", cast(truths, kI64), ops::first_numbers(shape.size()), false);
  if (may_equal(element_count(shape), 0))
    least = (*this)("Min", {least, index(1)});  // of nothing, it is no truth value
  require(least, std::move(reason));
}

Result<> check_attributes(const Node& node, std::span<const std::string_view> known) {
  for (const auto& [name, value] : node.attrs.entries)
    if (std::ranges::find(known, name) == known.end())
      return ops::bad_attribute(node, fmt::format("it has no attribute \"{}\"", name));
  return {};
}

Result<> check_given(const Node& node, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs)
    if (!node.input(i)) return ops::bad_attribute(node, fmt::format("it lacks input {}", i));
  return {};
}

Attrs picked(const Node& node, std::span<const std::string_view> names) {
  Attrs attrs;
  for (const auto& [name, value] : node.attrs.entries)
    if (std::ranges::find(names, name) != names.end()) attrs.set(name, value);
  return attrs;
}

Quantized dynamically_quantized(Lowering& g, Value* x) {
  Value* zero = g.number(0, x->dtype());
  const std::vector<int64_t> axes = ops::first_numbers(x->shape().size());
  Value* greatest = g("Max", {g.reduce("ReduceMax", x, axes, false), zero});
  Value* least = g("Min", {g.reduce("ReduceMin", x, axes, false), zero});
  Value* range = g("Sub", {greatest, least});
  range = g("Where", {g("Equal", {greatest, least}), g.number(1, x->dtype()), range});
  Value* scale = g("Div", {range, g.number(255, x->dtype())});
  Value* zero_point = g.cast(g("Round", {g("Sub", {zero, g("Div", {least, scale})})}), kU8);
  return {g("QuantizeLinear", {x, scale, zero_point}), scale, zero_point};
}

bool lacks_content(const Node& node) {
  using Kind = ParamInput::Kind;
  return std::ranges::any_of(node.op->params, [&](const ParamInput& param) {
    const Value* input = node.input(static_cast<size_t>(param.index));
    if (!input || input->is_constant() || (param.kind != Kind::kInts && param.kind != Kind::kInt)) return false;
    return !input->content || !std::ranges::all_of(*input->content, [](const Dim& dim) { return dim.is_number(); });
  });
}

Value* swapped(Lowering& g, Value* x) {
  std::vector<int64_t> perm = ops::first_numbers(x->shape().size());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return g.transpose(x, std::move(perm));
}

Value* count_up(Lowering& g, Value* x, int64_t axis) {
  Value* extent = g("Squeeze", {g("Shape", {x}, {{{"start", axis}, {"end", axis + 1}}})});
  return g("Range", {g.number(0, kI64), extent, g.number(1, kI64)});
}

Result<Value*> repeated_heads(Lowering& g, const Node& node, Value* x, const Dim& heads) {
  const Shape shape = x->shape();
  const Dim& own = shape[1];
  if (own == heads) return x;
  if (own.max() < 1 || (own.is_number() && !ops::may_divide(own.value(), heads)))
    return ops::bad_types(
        node, fmt::format("{} heads of queries do not share {} of keys", heads.to_string(), own.to_string()));
  const Dim group = floordiv(heads, own);
  ops::note_equal(node, group * own, heads, "heads of queries in groups");
  const Shape repeated{shape[0], own, group, shape[2], shape[3]};
  return g.reshape(g("Expand", {g.unsqueeze(x, {2})}, {{{"shape", dims_attr(repeated)}}}),
                   {shape[0], heads, shape[2], shape[3]});
}

Result<std::vector<Node*>> lower_node(Graph& graph, Node* node, Expansion expansion) {
  Lowering g(graph, *node);
  FETTLE_TRY(const std::vector<Value*> results, expansion(g, *node));
  FETTLE_TRY_VOID(g.status());
  if (results.size() < node->outputs.size())
    return ops::bad_attribute(*node, fmt::format("it has {} outputs", results.size()));
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    if (!results[i] && graph.use_count(node->outputs[i]) > 0)
      return ops::bad_attribute(*node, fmt::format("its output {} is not supported", i));
    if (results[i]) graph.replace_uses(node->outputs[i], results[i]);
  }
  graph.erase(node);
  return g.added();
}

}  // namespace fettle::passes
