#include "graph/passes/batch_node.h"

#include <algorithm>

#include "base/check.h"
#include "graph/op_util.h"
#include "graph/passes/match.h"

namespace fettle::passes {
namespace {

using ops::joined;

// One operator's form with rows.
struct Rule {
  bool (*applies)(const Node& node, const std::vector<bool>& has_rows);
  Value* (*make)(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs);
};

bool first_varies(const Node&, const std::vector<bool>& has_rows) {
  return has_rows[0] && std::ranges::count(has_rows, true) == 1;
}

Shape with_rows(const Dim& n, const Shape& shape) { return joined(Shape{n}, shape); }
int64_t axis_of(const Node& node, int64_t otherwise) {
  const int64_t axis = node.attrs.get_int("axis", otherwise), rank = node.input(0)->rank();
  return axis < 0 ? axis + rank : axis;
}

// Rows of `rank` dims, where broadcasting would put dims of 1 before what a row has.
Value* in_rank(Lowering& g, const Batched& x, const Dim& n, size_t rank) {
  if (!x.has_rows) return x.value;
  const Shape& shape = x.value->shape();
  Shape wide(rank - (shape.size() - 1), Dim(1));
  wide.insert(wide.begin(), n);
  wide.insert(wide.end(), shape.begin() + 1, shape.end());
  return g.reshape(x.value, std::move(wide));
}

// Parameters, as Clip's limits, are one for all elements.
bool is_plain_pointwise(const Node& node, const std::vector<bool>& has_rows) {
  return is_pointwise(&node) && (node.op->params.empty() || first_varies(node, has_rows));
}
Value* pointwise(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  std::vector<Value*> given;
  for (const Batched& input : inputs) given.push_back(in_rank(g, input, n, node.output()->shape().size()));
  return g(node.op->name, std::move(given), node.attrs);
}

Value* reshape(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  return g.reshape(inputs[0].value, with_rows(n, node.output()->shape()));
}

Value* expand(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  const Shape& shape = node.output()->shape();
  Value* x = in_rank(g, inputs[0], n, shape.size());
  Shape wide = with_rows(n, shape);
  return x->shape() == wide ? x : g("Expand", {x}, {{"shape", dims_attr(std::move(wide))}});
}

Value* transpose(Lowering& g, const Node& node, const Dim&, const std::vector<Batched>& inputs) {
  const int rank = node.input(0)->rank();
  std::vector<int64_t> reversed;
  for (int64_t d = rank; d-- > 0;) reversed.push_back(d);
  std::vector<int64_t> perm{0};
  for (const int64_t d : node.attrs.get_ints("perm", reversed)) perm.push_back(d + 1);
  return g.transpose(inputs[0].value, std::move(perm));
}

Value* reduce(Lowering& g, const Node& node, const Dim&, const std::vector<Batched>& inputs) {
  const int64_t rank = node.input(0)->rank();
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  if (axes.empty() && node.attrs.get_int("noop_with_empty_axes", 0) == 0)
    axes = ops::first_numbers(static_cast<size_t>(rank));
  for (int64_t& axis : axes) axis = (axis < 0 ? axis + rank : axis) + 1;
  Attrs attrs = node.attrs;
  attrs.set("axes", std::move(axes));
  return g(node.op->name, {inputs[0].value}, std::move(attrs));
}

template <int64_t otherwise>
Value* along_axis(Lowering& g, const Node& node, const Dim&, const std::vector<Batched>& inputs) {
  Attrs attrs = node.attrs;
  attrs.set("axis", axis_of(node, otherwise) + 1);
  return g(node.op->name, {inputs[0].value}, std::move(attrs));
}
bool has_no_other_axes(const Node& node, const std::vector<bool>& has_rows) {
  return first_varies(node, has_rows) && node.attrs.get_int("coerced", 0) == 0 && node.input(0)->rank() > 0;
}

bool is_product_of_matrices(const Node& node, const std::vector<bool>&) {
  return node.input(0)->rank() >= 2 && node.input(1)->rank() >= 2;
}
Value* product(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  const size_t rank = node.output()->shape().size();
  return g("MatMul", {in_rank(g, inputs[0], n, rank), in_rank(g, inputs[1], n, rank)}, node.attrs);
}

// Rows of one tensor at places of their own, or places of rows that all iterations read alike.
bool has_one_of_rows(const Node&, const std::vector<bool>& has_rows) { return has_rows[0] != has_rows[1]; }
Value* gather(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  const int64_t axis = axis_of(node, 0);
  Value *x = inputs[0].value, *index = inputs[1].value;
  if (inputs[0].has_rows) return g("Gather", {x, index}, {{"axis", axis + 1}});
  const bool is_whole = inputs[1].counts && x->shape()[static_cast<size_t>(axis)] == n;
  Value* rows = is_whole ? x : g("Gather", {x, index}, {{"axis", axis}});
  if (axis > 0) {
    std::vector<int64_t> perm{axis};
    for (int64_t d = 0; d < static_cast<int64_t>(rows->shape().size()); ++d)
      if (d != axis) perm.push_back(d);
    rows = g.transpose(rows, std::move(perm));
  }
  return rows;
}

const Rule* rule_of(const Node& node) {
  static constexpr Rule kPointwise{is_plain_pointwise, pointwise}, kReshape{first_varies, reshape},
      kExpand{first_varies, expand}, kTranspose{first_varies, transpose}, kReduce{first_varies, reduce},
      kSoftmax{has_no_other_axes, along_axis<-1>}, kPlace{has_no_other_axes, along_axis<0>},
      kProduct{is_product_of_matrices, product}, kGather{has_one_of_rows, gather};
  const std::string_view op = node.op->name;
  if (node.op->is_pointwise) return &kPointwise;
  if (node.op->is_reshape) return &kReshape;
  if (op == "Expand") return &kExpand;
  if (op == "Transpose") return &kTranspose;
  if (op.starts_with("Reduce")) return &kReduce;
  if (op == "Softmax" || op == "LogSoftmax") return &kSoftmax;
  if (op == "ArgMax" || op == "ArgMin") return &kPlace;
  if (op == "MatMul") return &kProduct;
  if (op == "Gather") return &kGather;
  return nullptr;
}

}  // namespace

bool can_be_batched(const Node& node, const std::function<bool(const Value*)>& varies) {
  if (is_host(node) || !node.bodies.empty() || node.outputs.size() != 1) return false;
  const Rule* rule = rule_of(node);
  std::vector<bool> has_rows;
  for (const Value* input : node.inputs) has_rows.push_back(input && varies(input));
  return rule && rule->applies(node, has_rows);
}

std::vector<Value*> batched(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs) {
  const Rule* rule = rule_of(node);
  FETTLE_CHECK(rule != nullptr);
  return {rule->make(g, node, n, inputs)};
}

}  // namespace fettle::passes
