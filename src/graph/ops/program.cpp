// Operators that are loop programs: what each computes stands in its attribute, in the loop language.

#include <fmt/format.h>

#include <unordered_map>

#include "graph/op_util.h"
#include "ir/fold.h"
#include "ir/text.h"

namespace fettle {
namespace {

using namespace ops;

// A node {program = "func f(A: f32[m, k], …, C: f32[m] output, m: i64, k: i64): …", sizes = [M, K]}: its inputs and
// outputs are the program's parameters, and `sizes` what its integers are.

Result<Func> program_text(const Node& node) {
  Result<Func> func = parse_func(node.attrs.get_string("program", ""));
  if (!func) return bad_attribute(node, "program: " + func.error().to_string());
  size_t n_inputs = 0;
  for (const Param& param : (*func)->params) n_inputs += param.kind == ParamKind::kInput;
  for (size_t i = 0; i < (*func)->params.size(); ++i)
    if (const auto kind = (*func)->params[i].kind; kind != (i < n_inputs ? ParamKind::kInput : ParamKind::kOutput))
      return bad_attribute(node, "program: its parameters are inputs, and then outputs");
  if (n_inputs != node.inputs.size() || (*func)->params.size() - n_inputs != node.outputs.size())
    return bad_attribute(
        node, fmt::format("program: it has {} inputs and {} outputs", n_inputs, (*func)->params.size() - n_inputs));
  if (!(*func)->body.as<BlockNode>()) return bad_attribute(node, "program: it is lowered already");
  return func;
}

// The integers' values. E606
Result<std::vector<Dim>> sizes_of(const Node& node, const Func& func) {
  std::vector<Dim> sizes;
  if (const AttrValue* value = node.attrs.find("sizes")) {
    if (const auto* dims = std::get_if<std::vector<Dim>>(value)) sizes = *dims;
    if (const auto* ints = std::get_if<std::vector<int64_t>>(value)) sizes.assign(ints->begin(), ints->end());
  }
  if (sizes.size() != func->int_params.size())
    return bad_attribute(node, fmt::format("sizes: there are {}, and the program has {} integers", sizes.size(),
                                           func->int_params.size()));
  return sizes;
}

VarMap size_values(const Func& func, const std::vector<Dim>& sizes) {
  VarMap values;
  for (size_t k = 0; k < sizes.size(); ++k) values[func->int_params[k].var.get()] = size_expr(sizes[k]);
  return values;
}

Types program_types(const Node& node) {
  FETTLE_TRY(const Func func, program_text(node));
  FETTLE_TRY(const std::vector<Dim> sizes, sizes_of(node, func));
  SizeVars vars;
  const VarMap values = size_values(func, sizes);
  std::vector<TensorType> types;
  for (size_t i = 0; i < func->params.size(); ++i) {
    const BufferNode& buffer = *func->params[i].buffer;
    Shape shape;
    for (const Expr& extent : buffer.shape) {
      const std::optional<Dim> dim = vars.dim_of(Folder().rewrite(substitute(extent, values)));
      if (!dim)
        return bad_attribute(node, fmt::format("program: {} has an extent of {}", buffer.name, to_text(extent)));
      shape.push_back(*dim);
    }
    if (i >= node.inputs.size()) {
      for (const Dim& dim : shape) {
        if (dim.max() < 0)
          return bad_types(node, fmt::format("{} would be of shape {}", buffer.name, to_string(shape)));
        note_not_negative(node, dim, "an extent of " + buffer.name);
      }
      types.push_back({buffer.dtype, std::move(shape)});
      continue;
    }
    if (!node.inputs[i]) return bad_types(node, fmt::format("input {} is missing", i));
    FETTLE_TRY_VOID(check_type(node, node.inputs[i], buffer.name, {buffer.dtype, shape}));
  }
  return types;
}

// Sizes instead of integers, tensors instead of parameters. Halves that a tensor reads as singles are singles.
class OverTensors : public Folder {
 public:
  OverTensors(VarMap sizes, std::unordered_map<const BufferNode*, te::Tensor> tensors, BufferMap buffers)
      : sizes_(std::move(sizes)), tensors_(std::move(tensors)), buffers_(std::move(buffers)) {}

  using Folder::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = sizes_.find(var);
      return found == sizes_.end() ? e : found->second;
    }
    if (const auto* read = e.as<LoadNode>())
      if (const auto found = tensors_.find(read->buffer.get()); found != tensors_.end()) {
        std::vector<Expr> indices;
        for (const Expr& index : read->indices) indices.push_back(rewrite(index));
        const Expr element = found->second.at(std::move(indices));
        return element.dtype() == e.dtype() ? element : cast(e.dtype(), element);
      }
    if (const auto* to = e.as<CastNode>())
      if (const auto* read = to->a.as<LoadNode>(); read && tensors_.contains(read->buffer.get())) {
        const te::Tensor& tensor = tensors_.at(read->buffer.get());
        if (tensor.dtype() == to->dtype) {
          std::vector<Expr> indices;
          for (const Expr& index : read->indices) indices.push_back(rewrite(index));
          return tensor.at(std::move(indices));
        }
      }
    return Folder::rewrite(e);
  }
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

 private:
  VarMap sizes_;
  std::unordered_map<const BufferNode*, te::Tensor> tensors_;
  BufferMap buffers_;
};

Tensors program_tensors(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Func func, program_text(node));
  FETTLE_TRY(const std::vector<Dim> sizes, sizes_of(node, func));
  const VarMap values = size_values(func, sizes);
  const auto* root = func->body.as<BlockNode>();
  std::unordered_map<const BufferNode*, te::Tensor> tensors;
  std::vector<Buffer> made;
  for (size_t i = 0; i < func->params.size(); ++i) {
    if (i < in.size())
      tensors.emplace(func->params[i].buffer.get(), in[i]);
    else
      made.push_back(func->params[i].buffer);
  }
  made.insert(made.end(), root->allocations.begin(), root->allocations.end());
  std::vector<te::OutputSpec> specs;
  for (const Buffer& buffer : made) {
    specs.emplace_back();
    specs.back().dtype = buffer->dtype;
    for (const Expr& extent : buffer->shape) specs.back().shape.push_back(Folder().rewrite(substitute(extent, values)));
  }
  std::vector<te::Tensor> results = te::nest(
      specs,
      [&](const std::vector<Buffer>& outputs) {
        BufferMap buffers;
        for (size_t k = 0; k < made.size(); ++k) buffers[made[k].get()] = outputs[k];
        return OverTensors(values, tensors, std::move(buffers)).rewrite(root->body);
      },
      func->name);
  results.resize(node.outputs.size());
  return results;
}

// What they promise of their programs differs, and nothing else.
constexpr OpDef program_op(FusionKind fusion, std::string_view name, InputCount inputs) {
  return define(fusion, name, inputs, program_types, program_tensors, {.n_outputs = -1});
}
constexpr OpDef program_defs[] = {
    // out[i, j] of elements of the inputs at i, j, or at some of these
    program_op(kBroadcast, "fettle.MapProgram", {1, kAny}),
    // … at indices that are functions of i, j
    program_op(kInjective, "fettle.IndexProgram", {0, kAny}),
    program_op(kReduction, "fettle.ReduceProgram", {1, kAny}),
    // sums of products
    program_op(kComplexOutFusable, "fettle.ProductProgram", {1, kAny}),
    // anything
    program_op(kOpaque, "fettle.LoopProgram", {0, kAny}),
};

}  // namespace

extern constinit const OpFamily program_ops{"program", program_defs};

}  // namespace fettle
