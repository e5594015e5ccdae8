#include "graph/plan/workload.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "graph/control.h"
#include "graph/op.h"
#include "graph/plan/canonical.h"
#include "graph/plan/nest.h"
#include "graph/plan/shapes.h"
#include "graph/small_types.h"
#include "te/create_func.h"

namespace fettle {
namespace {

BufferOrder order_of(const Shape& shape, const View& view) {
  BufferOrder result{memory_order(shape, view.strides), {}};
  Shape lying;
  std::vector<Dim> strides;
  for (int d : result.order) {
    lying.push_back(shape[static_cast<size_t>(d)]);
    strides.push_back(lying.back() == Dim(1) ? Dim(0) : view.strides[static_cast<size_t>(d)]);
  }
  if (is_row_major(lying, strides)) return result;
  // A dimension of extent 1 gets the stride that a dense array would have, so that equal work has equal strides.
  Dim inner = 1;
  for (size_t k = lying.size(); k-- > 0;) {
    if (lying[k] == Dim(1)) strides[k] = inner;
    inner = strides[k] * lying[k];
  }
  result.strides = size_exprs(strides);
  return result;
}

bool is_identity(const BufferOrder& order) {
  if (!order.strides.empty()) return false;
  for (size_t d = 0; d < order.order.size(); ++d)
    if (order.order[d] != static_cast<int>(d)) return false;
  return true;
}

// Of a loop, what says how often it runs is part of the program.
void drop_unread_inputs(Func& func, std::vector<Value*>& values) {
  std::unordered_set<const BufferNode*> used;
  for (const Stmt& stmt : nests_of(func))
    for (const auto* regions : {&open_nest(stmt).block->reads, &open_nest(stmt).block->writes})
      for (const Region& region : *regions) used.insert(region.buffer.get());
  std::vector<Value*> left;
  for (size_t i = 0; i < values.size(); ++i)
    if (used.contains(func->params[i].buffer.get())) left.push_back(values[i]);
  func = with(func, [&](FuncNode& f) {
    std::erase_if(f.params, [&](const Param& param) { return !used.contains(param.buffer.get()); });
  });
  values = std::move(left);
}

}  // namespace

Result<GroupProgram> group_program(const Group& group, const std::vector<std::pair<const Value*, View>>& views) {
  SizeVars vars;
  std::unordered_map<const Value*, te::Tensor> tensors;
  std::vector<te::Tensor> inputs, outputs;
  te::FuncOptions options;
  int n_data = 0, n_constants = 0;
  for (const Value* value : group.inputs) {
    const std::string name = value->is_constant() ? fmt::format("w{}", n_constants++) : fmt::format("x{}", n_data++);
    tensors[value] = te::placeholder(size_exprs(value->shape()), program_dtype(value->dtype()), name);
    inputs.push_back(tensors[value]);
    options.input_kinds.push_back(value->is_constant() ? ParamKind::kConstant : ParamKind::kInput);
  }
  for (const Node* node : group.nodes) {
    std::vector<te::Tensor> args;
    for (const Value* input : node->inputs) args.push_back(input ? tensors.at(input) : te::Tensor());
    FETTLE_TRY(const std::vector<te::Tensor> made, node_compute(*node, args));
    FETTLE_CHECK(made.size() == node->outputs.size());
    for (size_t i = 0; i < made.size(); ++i) tensors[node->outputs[i]] = made[i];
  }
  for (const Value* value : group.outputs) {
    te::Tensor tensor = rounded(tensors.at(value), value->dtype());
    // An operator may hand on its input (Identity, Dropout): then the group copies.
    const bool taken = !tensor.get()->op || std::find(outputs.begin(), outputs.end(), tensor) != outputs.end();
    if (taken) tensor = te::compute(tensor.shape(), [&](const auto& i) { return te::Body(tensor(i)); }, "copy");
    outputs.push_back(tensor);
  }

  GroupProgram program;
  options.int_params = vars.params();
  FETTLE_TRY(Func func, program_of(group.name(), inputs, outputs, options, group.anchor->name));
  program.params.insert(program.params.end(), group.inputs.begin(), group.inputs.end());
  program.params.insert(program.params.end(), group.outputs.begin(), group.outputs.end());

  std::unordered_map<const BufferNode*, double> scalars;
  std::vector<Value*> kept;
  for (size_t i = 0; i < program.params.size(); ++i) {
    const Value* value = program.params[i];
    // A code is no number, nor is a string's: an artefact has others.
    const bool is_number = value->is_constant() && !value->dtype().is_small_float() && !value->dtype().is_string();
    if (is_number && value->constant->n_elems() == 1 && is_round_number(value->constant->at(0)))
      scalars[func->params[i].buffer.get()] = value->constant->at(0);
    else
      kept.push_back(program.params[i]);
  }
  func = fold_scalars(func, scalars);
  program.params = std::move(kept);
  if (is_loop(*group.anchor)) drop_unread_inputs(func, program.params);
  func = inline_blocks(func);

  // What stays inside lies as the output does, where it has as many dimensions.
  std::unordered_map<const BufferNode*, BufferOrder> orders;
  std::vector<int> inner_order;
  for (const auto& [value, view] : views) {
    const auto at = std::find(program.params.begin(), program.params.end(), value);
    if (at == program.params.end()) continue;
    const BufferOrder order = order_of(value->shape(), view);
    if (func->params[static_cast<size_t>(at - program.params.begin())].kind == ParamKind::kOutput)
      inner_order = order.order;
    if (!is_identity(order))
      orders[func->params[static_cast<size_t>(at - program.params.begin())].buffer.get()] = order;
  }
  for (const Buffer& buffer : func.root().allocations) {
    const BufferOrder order{inner_order, {}};
    if (buffer->shape.size() == inner_order.size() && !is_identity(order)) orders[buffer.get()] = order;
  }
  func = canonical_sizes(orders.empty() ? func : apply_orders(func, orders), vars);
  SizedFunc sized = with_size_params(merge_dims(drop_unit_dims(order_loops(func)), vars), vars);
  program.func = std::move(sized.func);
  program.sizes = std::move(sized.sizes);
  return program;
}

SizedFunc dims_program(const std::vector<Dim>& dims) {
  SizeVars vars;
  const te::Tensor y = te::compute(
      {Expr(std::ssize(dims))},
      [&](const std::vector<Var>& i) -> te::Body {
        Expr value = size_expr(dims.back());
        for (size_t d = dims.size() - 1; d-- > 0;)
          value = select(eq(i[0], Expr(static_cast<int64_t>(d))), size_expr(dims[d]), value);
        return value;
      },
      "sizes");
  te::FuncOptions options;
  options.int_params = vars.params();
  return with_size_params(canonical_sizes(te::create_func("Sizes", {}, {y}, options), vars), vars);
}

SizedFunc copy_program(const Value& value, const View& from, const View& to) {
  SizeVars vars;
  const te::Tensor x = te::placeholder(size_exprs(value.shape()), program_dtype(value.dtype()), "x0");
  const te::Tensor y = te::compute(x.shape(), [&](const auto& i) { return te::Body(x(i)); }, "copy");
  te::FuncOptions options;
  options.input_kinds = {value.is_constant() ? ParamKind::kConstant : ParamKind::kInput};
  const Func func = te::create_func("Copy", {x}, {y}, options);
  std::unordered_map<const BufferNode*, BufferOrder> orders;
  for (const auto& [param, view] : {std::pair(0, &from), std::pair(1, &to)})
    if (const BufferOrder order = order_of(value.shape(), *view); !is_identity(order))
      orders[func->params[static_cast<size_t>(param)].buffer.get()] = order;
  const Func lying = canonical_sizes(orders.empty() ? func : apply_orders(func, orders), vars);
  return with_size_params(merge_dims(drop_unit_dims(order_loops(lying)), vars), vars);
}

}  // namespace fettle
