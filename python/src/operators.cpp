// Operators of one's own: a Python function says what an operator computes, another is its rule of shapes.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "expr.h"
#include "graph/op_registry.h"
#include "graph/op_util.h"

namespace fettle::python {
namespace {

/// What was registered.
struct PyOperator {
  nb::callable compute;
  nb::object shape;  // a callable, or None
  std::vector<std::string> attributes;
  int max_inputs = -1;
};

nb::object from_dims(const std::vector<Dim>& dims) {
  nb::list list;
  for (const Dim& d : dims) list.append(d.is_number() ? nb::cast(d.value()) : nb::cast(d.to_string()));
  return list;
}

nb::object to_python(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> nb::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, ConstantTensor>)
          raise(ErrorCode::E606, "an attribute is a tensor, which functions are not given");
        else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<Dim>>)
          return from_dims(v);
        else
          return nb::cast(v);
      },
      value);
}

nb::dict keywords(const PyOperator& op, const Node& node) {
  nb::dict made;
  for (const auto& [name, value] : node.attrs.entries) {
    if (std::ranges::find(op.attributes, name) == op.attributes.end())
      raise(ErrorCode::E606, fmt::format("{} has no attribute {}", node.op->name, name), node.name);
    made[name.c_str()] = to_python(value);
  }
  return made;
}

std::vector<te::Tensor> mean(const PyOperator& op, const Node& node, std::span<const te::Tensor> inputs) {
  nb::list given;
  size_t count = inputs.size();
  while (count > 0 && !inputs[count - 1]) --count;  // those that are left out at the end have defaults
  for (const te::Tensor& input : inputs.first(count)) given.append(input ? nb::cast(input) : nb::object(nb::none()));
  const nb::object made = op.compute(*nb::tuple(given), **keywords(op, node));
  te::Tensor* one = nullptr;
  if (nb::try_cast(made, one) && one) return {*one};
  if (PyTuple_Check(made.ptr()) || PyList_Check(made.ptr())) return nb::cast<std::vector<te::Tensor>>(made);
  raise(ErrorCode::E605, fmt::format("{}: what it means is a tensor, or a tuple of them", node.op->name), node.name);
}

Dim to_dim(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return Dim::symbol(nb::cast<std::string>(value));
  return nb::cast<int64_t>(value);
}
Shape to_shape(nb::handle value) {
  Shape shape;
  for (nb::handle extent : nb::borrow(value)) shape.push_back(to_dim(extent));
  return shape;
}
nb::object to_tuple(const Shape& shape) {
  nb::list list;
  for (const Dim& d : shape) {
    if (d.is_number())
      list.append(d.value());
    else
      list.append(d.to_string());
  }
  return nb::tuple(list);
}

std::vector<TensorType> stated_types(const PyOperator& op, const Node& node) {
  nb::list shapes;
  for (const Value* input : node.inputs) shapes.append(input ? to_tuple(input->shape()) : nb::object(nb::none()));
  while (static_cast<int>(nb::len(shapes)) < op.max_inputs) shapes.append(nb::none());
  const nb::object made = op.shape(*nb::tuple(shapes), **keywords(op, node));
  if (!PyList_Check(made.ptr())) {
    if (node.inputs.empty() || !node.inputs[0])
      raise(ErrorCode::E605, fmt::format("{}: without a first input, a rule gives [(shape, dtype)]", node.op->name));
    return {{node.inputs[0]->dtype(), to_shape(made)}};
  }
  std::vector<TensorType> types;
  for (nb::handle type : made) types.push_back({to_dtype(nb::cast<std::string>(type[1])), to_shape(type[0])});
  return types;
}

/// Those of the tensors that `compute` returns, of halves as they are stored.
Result<std::vector<TensorType>> types_of_compute(const PyOperator& op, const Node& node) {
  std::vector<te::Tensor> inputs;
  for (const Value* input : node.inputs) {
    if (input && !input->is_static())
      return fail(ErrorCode::E604, fmt::format("{} has no rule for open shapes", node.op->name), node.name);
    inputs.push_back(input ? placeholder_for(*input).read_as(computed_dtype(input->dtype())) : te::Tensor());
  }
  std::vector<TensorType> types;
  for (const te::Tensor& made : mean(op, node, inputs)) {
    Shape shape;
    for (const Expr& extent : made.shape()) {
      const int64_t* n = as_int(extent);
      if (!n) return fail(ErrorCode::E605, fmt::format("{} has an open extent", node.op->name), node.name);
      shape.push_back(*n);
    }
    const DType first = node.inputs.empty() || !node.inputs[0] ? made.dtype() : node.inputs[0]->dtype();
    types.push_back({computed_dtype(first) == made.dtype() ? first : made.dtype(), std::move(shape)});
  }
  return types;
}

template <class Call>
auto guarded(const Call& call) -> decltype(call()) {
  const nb::gil_scoped_acquire acquired;
  try {
    return call();
  } catch (nb::python_error& error) {
    return tl::unexpected<Diagnostic>(refusal(error));
  } catch (Failure& failure) {
    return tl::unexpected<Diagnostic>(std::move(failure.diagnostic));
  }
}

using Types = Result<std::vector<TensorType>>;

void register_operator(const std::string& name, nb::callable compute, nb::object shape, int min_inputs, int max_inputs,
                       std::vector<std::string> attributes, bool pointwise, bool commutative, bool moves,
                       const std::string& fusion) {
  OpDef def{.name = name, .infer = nullptr, .compute = nullptr};
  constexpr std::array kKinds = {FusionKind::kElementwise, FusionKind::kBroadcast,         FusionKind::kInjective,
                                 FusionKind::kReduction,   FusionKind::kComplexOutFusable, FusionKind::kOpaque};
  const auto kind = std::ranges::find(kKinds, fusion, [](FusionKind k) { return to_string(k); });
  if (kind == kKinds.end()) raise(ErrorCode::E709, "there is no fusion " + fusion);
  def.fusion = *kind;
  def.min_inputs = min_inputs;
  def.max_inputs = max_inputs;
  def.n_outputs = pointwise ? 1 : -1;
  def.is_pointwise = pointwise;
  def.is_commutative = commutative;
  def.work = moves ? ElementWork::kMoves : ElementWork::kComputes;
  const auto op =
      std::make_shared<PyOperator>(PyOperator{std::move(compute), std::move(shape), std::move(attributes), max_inputs});
  OpFunctions functions;
  functions.infer = [op, pointwise](const Node& node) -> Types {
    return guarded([&]() -> Types {
      if (!op->shape.is_none()) return stated_types(*op, node);
      if (!pointwise || node.inputs.empty()) return types_of_compute(*op, node);
      Shape common;
      for (const Value* input : node.inputs)
        if (input) {
          FETTLE_TRY(common, ops::broadcast(node, common, input->shape()));
        }
      return std::vector<TensorType>{{node.inputs[0]->dtype(), std::move(common)}};
    });
  };
  functions.compute = [op](const Node& node, std::span<const te::Tensor> inputs) {
    return guarded([&]() -> Result<std::vector<te::Tensor>> { return mean(*op, node, inputs); });
  };
  take(register_op(def, std::move(functions)));
}

}  // namespace

void bind_own_operators(nb::module_& m) {
  m.def("_register_operator", &register_operator, nb::arg("name"), nb::arg("meaning"), nb::arg("shape").none(),
        nb::arg("min_inputs"), nb::arg("max_inputs"), nb::arg("attributes"), nb::arg("pointwise"),
        nb::arg("commutative"), nb::arg("moves"), nb::arg("fusion"));
}

}  // namespace fettle::python
