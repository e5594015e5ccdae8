#include "te/tensor.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "ir/fold.h"
#include "ir/query.h"

namespace fettle::te {
namespace {

std::vector<Var> make_axes(size_t rank, const std::vector<std::string>& names) {
  std::vector<Var> axes;
  for (size_t d = 0; d < rank; ++d)
    axes.push_back(make_var("v" + (d < names.size() ? names[d] : fmt::format("i{}", d))));
  return axes;
}

std::vector<Tensor> outputs_of(const Ref<const OpNode>& op) {
  std::vector<Tensor> tensors;
  for (size_t k = 0; k < op->outputs.size(); ++k) {
    auto node = make_ref<TensorNode>();
    node->name = op->outputs.size() == 1 ? op->name : fmt::format("{}.v{}", op->name, k);
    node->shape = op->outputs[k].shape;
    node->dtype = op->outputs[k].dtype;
    node->op = op;
    node->output = static_cast<int>(k);
    tensors.emplace_back(Ref<const TensorNode>(node));
  }
  return tensors;
}

Tensor placeholder_node(std::vector<Expr> shape, DType dtype, std::string name) {
  auto node = make_ref<TensorNode>();
  node->name = std::move(name);
  node->shape = std::move(shape);
  node->dtype = dtype;
  return Tensor(Ref<const TensorNode>(node));
}

Reduction simple(BinaryOp op, Expr source, Expr identity, std::vector<ReduceAxis> axes) {
  return reduce(
      {std::move(source)}, {std::move(identity)},
      [op](const std::vector<Expr>& state, const std::vector<Expr>& value) {
        return std::vector<Expr>{accumulated(op, state[0], value[0])};
      },
      std::move(axes));
}

Reduction arg_extreme(Expr index, Expr value, std::vector<ReduceAxis> axes, bool greatest) {
  Expr worst = greatest ? te::lowest(value.dtype()) : te::highest(value.dtype());
  Expr first = te::highest(index.dtype());
  return reduce(
      {std::move(index), std::move(value)}, {std::move(first), std::move(worst)},
      [greatest](const std::vector<Expr>& s, const std::vector<Expr>& x) {
        const Expr better = greatest ? gt(x[1], s[1]) : lt(x[1], s[1]);
        const Expr wins = logical_or(better, logical_and(eq(x[1], s[1]), lt(x[0], s[0])));
        return std::vector<Expr>{select(wins, x[0], s[0]), select(wins, x[1], s[1])};
      },
      std::move(axes));
}

}  // namespace

Expr Tensor::at(std::vector<Expr> indices) const {
  FETTLE_CHECK_MSG(indices.size() == shape().size(), "tensor " + name() + ": wrong number of indices");
  return cast(dtype_, load(node_, std::move(indices)));
}

Tensor Tensor::read_as(DType dtype) const {
  Tensor result = *this;
  result.dtype_ = dtype;
  return result;
}

ReduceAxis reduce_axis(Expr extent, std::string name) { return {make_var("v" + name), std::move(extent)}; }

Expr lowest(DType type) { return fettle::lowest(type); }
Expr highest(DType type) { return fettle::highest(type); }

Reduction reduce(std::vector<Expr> sources, std::vector<Expr> identity, const Combiner& combine,
                 std::vector<ReduceAxis> axes) {
  FETTLE_CHECK(!sources.empty() && sources.size() == identity.size());
  Reduction result;
  std::vector<Expr> left, right;
  for (size_t k = 0; k < sources.size(); ++k) {
    FETTLE_CHECK(identity[k].dtype() == sources[k].dtype());
    result.left.push_back(make_var("left", sources[k].dtype()));
    result.right.push_back(make_var("right", sources[k].dtype()));
    left.push_back(result.left.back());
    right.push_back(result.right.back());
  }
  result.combined = combine(left, right);
  FETTLE_CHECK(result.combined.size() == sources.size());
  result.sources = std::move(sources);
  result.identity = std::move(identity);
  result.axes = std::move(axes);
  return result;
}

Reduction sum(Expr source, std::vector<ReduceAxis> axes) {
  Expr zero = constant(0, source.dtype());
  return simple(BinaryOp::kAdd, std::move(source), std::move(zero), std::move(axes));
}
Reduction prod(Expr source, std::vector<ReduceAxis> axes) {
  Expr one = constant(1, source.dtype());
  return simple(BinaryOp::kMul, std::move(source), std::move(one), std::move(axes));
}
Reduction max(Expr source, std::vector<ReduceAxis> axes) {
  Expr low = te::lowest(source.dtype());
  return simple(BinaryOp::kMax, std::move(source), std::move(low), std::move(axes));
}
Reduction ordered_max(Expr source, std::vector<ReduceAxis> axes) {
  Expr low = te::lowest(source.dtype());
  return simple(BinaryOp::kOrderedMax, std::move(source), std::move(low), std::move(axes));
}
Reduction min(Expr source, std::vector<ReduceAxis> axes) {
  Expr high = te::highest(source.dtype());
  return simple(BinaryOp::kMin, std::move(source), std::move(high), std::move(axes));
}
Reduction argmax(Expr index, Expr value, std::vector<ReduceAxis> axes) {
  return arg_extreme(std::move(index), std::move(value), std::move(axes), true);
}
Reduction argmin(Expr index, Expr value, std::vector<ReduceAxis> axes) {
  return arg_extreme(std::move(index), std::move(value), std::move(axes), false);
}

Tensor placeholder(std::vector<Expr> shape, DType dtype, std::string name) {
  return placeholder_node(std::move(shape), dtype, std::move(name));
}

std::vector<Tensor> compute_many(std::vector<Expr> shape, const ElementFn& element, std::string name,
                                 std::vector<std::string> axis_names) {
  auto op = make_ref<OpNode>();
  op->name = std::move(name);
  op->axes = make_axes(shape.size(), axis_names);
  op->body.push_back(element(op->axes));
  for (size_t k = 0; k < op->body[0].outputs(); ++k) op->outputs.push_back({shape, op->body[0].dtype(k)});
  FETTLE_CHECK(!op->outputs.empty());
  return outputs_of(op);
}

Tensor compute(std::vector<Expr> shape, const ElementFn& element, std::string name,
               std::vector<std::string> axis_names) {
  std::vector<Tensor> outputs = compute_many(std::move(shape), element, std::move(name), std::move(axis_names));
  FETTLE_CHECK_MSG(outputs.size() == 1, "compute: several values; use compute_many");
  return outputs[0];
}

std::vector<Tensor> scan(Expr steps, std::vector<Expr> shape, const ElementFn& init, const StepFn& update,
                         std::string name, std::vector<std::string> axis_names) {
  auto op = make_ref<OpNode>();
  op->kind = OpNode::Kind::kScan;
  op->name = std::move(name);
  op->axes = make_axes(shape.size(), axis_names);
  op->step = make_var("vt");
  op->init.push_back(init(op->axes));
  FETTLE_CHECK_MSG(!op->init[0].reduction, "scan: the initial state is no reduction");
  std::vector<Expr> full = {steps};
  full.insert(full.end(), shape.begin(), shape.end());
  std::vector<Tensor> states;
  for (size_t k = 0; k < op->init[0].outputs(); ++k) {
    op->outputs.push_back({full, op->init[0].dtype(k)});
    states.push_back(placeholder_node(full, op->init[0].dtype(k), op->name));
    op->states.push_back(states.back().buffer());
  }
  op->body.push_back(update(states, shifted(op->step, 1), op->axes));
  FETTLE_CHECK_MSG(op->body[0].outputs() == op->outputs.size(), "scan: init and update differ in number");
  for (size_t k = 0; k < op->outputs.size(); ++k) FETTLE_CHECK(op->body[0].dtype(k) == op->outputs[k].dtype);
  return outputs_of(op);
}

std::vector<Tensor> recur(Expr steps, std::vector<Expr> shape, const ElementFn& init, const RecurFn& step,
                          std::string name, std::vector<std::string> axis_names) {
  auto op = make_ref<OpNode>();
  op->kind = OpNode::Kind::kRecur;
  op->name = std::move(name);
  op->axes = make_axes(shape.size(), axis_names);
  op->steps = std::move(steps);
  op->step = make_var("vt");
  op->init.push_back(init(op->axes));
  FETTLE_CHECK_MSG(!op->init[0].reduction, "recur: the initial state is no reduction");
  const std::vector<Expr> here(op->axes.begin(), op->axes.end());
  std::vector<Expr> states;
  for (size_t k = 0; k < op->init[0].outputs(); ++k) {
    const DType dtype = op->init[0].dtype(k);
    op->outputs.push_back({shape, dtype});
    const Tensor state = placeholder_node(shape, dtype, op->name);
    states.push_back(state(here));
    op->states.push_back(state.buffer());
  }
  Step made = step(states, op->step, op->axes);
  FETTLE_CHECK_MSG(made.states.size() == states.size(), "recur: init and step differ in number");
  for (size_t k = 0; k < states.size(); ++k) FETTLE_CHECK(made.states[k].dtype() == states[k].dtype());
  std::vector<Expr> full = {op->steps};
  full.insert(full.end(), shape.begin(), shape.end());
  for (const Expr& row : made.rows) op->outputs.push_back({full, row.dtype()});
  FETTLE_CHECK(!op->outputs.empty());
  op->lets = std::move(made.lets);
  made.states.insert(made.states.end(), made.rows.begin(), made.rows.end());
  op->body.emplace_back(std::move(made.states));
  return outputs_of(op);
}

std::vector<Tensor> opaque(std::vector<OutputSpec> outputs, std::vector<BlockAxis> axes, const StatementFn& body,
                           std::string name) {
  auto op = make_ref<OpNode>();
  op->kind = OpNode::Kind::kOpaque;
  op->name = std::move(name);
  op->outputs = std::move(outputs);
  op->block_axes = std::move(axes);
  for (const OutputSpec& output : op->outputs)
    op->states.push_back(placeholder_node(output.shape, output.dtype, op->name).buffer());
  op->statements = body(op->states);
  return outputs_of(op);
}

std::vector<Tensor> nest(std::vector<OutputSpec> outputs, const ProgramFn& program, std::string name) {
  auto op = make_ref<OpNode>();
  op->kind = OpNode::Kind::kNest;
  op->name = std::move(name);
  op->outputs = std::move(outputs);
  for (const OutputSpec& output : op->outputs)
    op->states.push_back(placeholder_node(output.shape, output.dtype, op->name).buffer());
  op->statements = program(op->states);
  return outputs_of(op);
}

Tensor scatter(std::vector<Expr> shape, const ElementFn& init, std::vector<Expr> updates, const UpdateFn& update,
               const CombineFn& combine, std::string name) {
  auto op = make_ref<OpNode>();
  op->kind = OpNode::Kind::kOpaque;
  op->name = std::move(name);
  op->axes = make_axes(shape.size(), {});
  op->init.push_back(init(op->axes));
  FETTLE_CHECK_MSG(!op->init[0].reduction && op->init[0].outputs() == 1, "scatter: it begins with one value");
  op->outputs.push_back({shape, op->init[0].dtype(0)});
  op->states.push_back(placeholder_node(shape, op->outputs[0].dtype, op->name).buffer());

  std::vector<Var> axes;
  for (size_t d = 0; d < updates.size(); ++d) axes.push_back(make_var(fmt::format("vu{}", d)));
  Update made = update(axes);
  FETTLE_CHECK(made.place.size() == shape.size());
  for (size_t d = 0; d < updates.size(); ++d) {
    const bool apart = std::ranges::any_of(made.place, [&](const Expr& e) { return e.get() == axes[d].get(); });
    op->block_axes.push_back({axes[d], updates[d], apart ? IterKind::kSpatial : IterKind::kScan});
  }
  // Each index that is computed gets a name.
  std::vector<std::pair<Var, Expr>> named;
  Expr inside = std::move(made.condition);
  for (size_t d = 0; d < shape.size(); ++d) {
    Expr& index = made.place[d];
    const auto axis = std::ranges::find(axes, index.get(), [](const Var& v) -> const ExprNode* { return v.get(); });
    if (axis != axes.end() && structural_equal(updates[static_cast<size_t>(axis - axes.begin())], shape[d])) continue;
    if (axis == axes.end()) {
      named.emplace_back(make_var(fmt::format("place{}", d)), index);
      index = named.back().first;
      inside = logical_and(inside, le(0, index));
    }
    inside = logical_and(inside, lt(index, shape[d]));
  }
  const Expr value = combine ? combine(load(op->states[0], made.place), made.value) : made.value;
  op->statements.body = store(op->states[0], made.place, value);
  if (inside && !is_true(inside)) op->statements.body = if_then(inside, op->statements.body);
  for (size_t k = named.size(); k-- > 0;)
    op->statements.body = let(named[k].first, named[k].second, op->statements.body);
  return outputs_of(op)[0];
}

Tensor pad(const Tensor& t, const std::vector<Expr>& before, const std::vector<Expr>& after, Expr value,
           std::string name) {
  FETTLE_CHECK(before.size() == t.shape().size() && after.size() == t.shape().size());
  if (const DType stored = t.stored_dtype(); stored != t.dtype()) {
    const auto* number = value.as<FloatImmNode>();
    Expr edge = number && stored.is_float() ? float_imm(number->value, stored) : cast(stored, value);
    return pad(t.read_as(stored), before, after, std::move(edge), std::move(name)).read_as(t.dtype());
  }
  std::vector<Expr> shape;
  for (size_t d = 0; d < before.size(); ++d) shape.push_back(before[d] + t.shape()[d] + after[d]);
  return compute(
      shape,
      [&](const std::vector<Var>& i) -> Body {
        std::vector<Expr> indices;
        Expr inside;
        for (size_t d = 0; d < before.size(); ++d) {
          if (!is_zero(before[d])) inside = logical_and(inside, le(before[d], i[d]));
          if (!is_zero(after[d])) inside = logical_and(inside, lt(i[d], before[d] + t.shape()[d]));
          indices.push_back(i[d] - before[d]);
        }
        if (is_true(inside)) return t(indices);
        return select(call("likely", {inside}, kBool), t(indices), value);
      },
      std::move(name));
}

}  // namespace fettle::te
