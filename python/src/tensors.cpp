// Tensor expressions: placeholder, compute, reductions, and the program that they make.

#include <algorithm>

#include <fmt/format.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "expr.h"
#include "ir/text.h"
#include "program.h"
#include "te/make_func.h"

namespace fettle::python {
namespace {

using te::ReduceAxis;
using te::Tensor;

struct PyReduction {
  te::Reduction reduction;
};

std::vector<Expr> to_shape(nb::handle value) {
  std::vector<Expr> shape;
  const nb::object list =
      PyIndex_Check(value.ptr()) ? nb::object(nb::make_tuple(nb::borrow(value))) : nb::borrow(value);
  for (nb::handle extent : list) {
    const PyExpr e = to_index(extent, "an extent");
    if (const int64_t* n = as_int(e.expr); n && *n < 1)
      raise(ErrorCode::E709, fmt::format("an extent is at least 1, and this is {}", *n));
    shape.push_back(e.expr);
  }
  return shape;
}

nb::tuple to_tuple(const std::vector<Expr>& shape) {
  nb::list list;
  for (const Expr& e : shape) {
    if (const int64_t* n = as_int(e))
      list.append(*n);
    else
      list.append(PyExpr{e, 1});
  }
  return nb::tuple(list);
}

std::vector<ReduceAxis> to_axes(nb::handle value) {
  std::vector<ReduceAxis> axes;
  ReduceAxis* one = nullptr;
  if (nb::try_cast(value, one) && one) return {*one};
  for (nb::handle axis : nb::borrow(value)) axes.push_back(nb::cast<ReduceAxis>(axis));
  if (axes.empty()) raise(ErrorCode::E709, "a reduction has at least one axis");
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (axes[i].var == axes[j].var) raise(ErrorCode::E709, "a reduction names an axis twice");
  return axes;
}

template <te::Reduction (*reduce)(Expr, std::vector<ReduceAxis>)>
PyReduction reduction(nb::handle source, nb::handle axis) {
  const PyExpr e = to_expr(source);
  if (!e.expr.dtype().is_float() && !e.expr.dtype().is_int())
    raise(ErrorCode::E709, "a reduction is over numbers, and this is " + e.expr.dtype().to_string());
  return {reduce(e.expr, to_axes(axis))};
}

template <te::Reduction (*reduce)(Expr, Expr, std::vector<ReduceAxis>)>
PyReduction arg_reduction(nb::handle index, nb::handle value, nb::handle axis) {
  const PyExpr i = to_expr(index), v = to_expr(value);
  if (!i.expr.dtype().is_int() || (!v.expr.dtype().is_float() && !v.expr.dtype().is_int()))
    raise(ErrorCode::E709, "an index is an integer, and what is compared a number");
  return {reduce(i.expr, v.expr, to_axes(axis))};
}

/// One expression, or a tuple or list of at least one.
std::vector<PyExpr> to_exprs(nb::handle value, const char* what) {
  if (!PyTuple_Check(value.ptr()) && !PyList_Check(value.ptr())) return {to_expr(value)};
  std::vector<PyExpr> values;
  for (nb::handle item : nb::borrow(value)) values.push_back(to_expr(item));
  if (values.empty()) raise(ErrorCode::E709, fmt::format("{} has at least one value", what));
  return values;
}

nb::object to_arguments(const std::vector<Expr>& values, bool several) {
  if (!several) return nb::cast(PyExpr{values[0], 1});
  nb::list list;
  for (const Expr& value : values) list.append(PyExpr{value, 1});
  return nb::tuple(list);
}

PyReduction general_reduction(nb::callable combine, nb::handle source, nb::handle identity, nb::handle axis) {
  const bool several = PyTuple_Check(source.ptr()) || PyList_Check(source.ptr());
  std::vector<Expr> sources, neutral;
  for (const PyExpr& e : to_exprs(source, "a reduction")) sources.push_back(e.expr);
  const auto of_type = [&](nb::handle values, const char* what) {
    const nb::object list = PyTuple_Check(values.ptr()) || PyList_Check(values.ptr())
                                ? nb::borrow(values)
                                : nb::object(nb::make_tuple(nb::borrow(values)));
    std::vector<Expr> result;
    for (nb::handle item : list) {
      if (result.size() == sources.size()) break;
      const Expr made = to_expr(item, sources[result.size()].dtype()).expr;
      if (made.dtype() != sources[result.size()].dtype())
        raise(ErrorCode::E709, fmt::format("{} is of type {}, and what is reduced of {}", what,
                                           made.dtype().to_string(), sources[result.size()].dtype().to_string()));
      result.push_back(made);
    }
    if (result.size() != sources.size() || nb::len(list) != sources.size())
      raise(ErrorCode::E709, fmt::format("{} has one value for each of the {} that are reduced", what, sources.size()));
    return result;
  };
  neutral = of_type(identity, "the identity");
  const std::vector<ReduceAxis> axes = to_axes(axis);
  return {te::reduce(
      sources, neutral,
      [&](const std::vector<Expr>& left, const std::vector<Expr>& right) {
        return of_type(combine(to_arguments(left, several), to_arguments(right, several)), "what combines two states");
      },
      axes)};
}

te::Body to_body(nb::handle value) {
  PyReduction* reduction = nullptr;
  if (nb::try_cast(value, reduction) && reduction) return reduction->reduction;
  std::vector<Expr> values;
  for (const PyExpr& e : to_exprs(value, "a tensor")) values.push_back(e.expr);
  return values;
}

nb::list to_list(const std::vector<Var>& indices) {
  nb::list list;
  for (const Var& index : indices) list.append(PyExpr{index, 1});
  return list;
}

nb::object one_or_tuple(std::vector<Tensor> tensors) {
  if (tensors.size() == 1) return nb::cast(tensors[0]);
  nb::list list;
  for (Tensor& t : tensors) list.append(std::move(t));
  return nb::tuple(list);
}

nb::object compute(nb::handle shape_value, nb::callable fn, const std::string& name,
                   const std::vector<std::string>& axis_names) {
  checked_name(name, "a tensor");
  for (const std::string& axis : axis_names) checked_name(axis, "an axis");
  const auto element = [&](const std::vector<Var>& indices) { return to_body(fn(*nb::tuple(to_list(indices)))); };
  return one_or_tuple(te::compute_many(to_shape(shape_value), element, name, axis_names));
}

nb::object scan(nb::handle steps_value, nb::handle shape_value, nb::callable init, nb::callable update,
                const std::string& name, const std::vector<std::string>& axis_names) {
  checked_name(name, "a tensor");
  for (const std::string& axis : axis_names) checked_name(axis, "an axis");
  const std::vector<Expr> steps = to_shape(steps_value);
  if (steps.size() != 1) raise(ErrorCode::E709, "a scan has one number of steps");
  std::vector<DType> types;
  const auto first = [&](const std::vector<Var>& indices) {
    te::Body body = to_body(init(*nb::tuple(to_list(indices))));
    if (body.reduction) raise(ErrorCode::E709, "what a scan starts from is no reduction");
    for (size_t k = 0; k < body.outputs(); ++k) types.push_back(body.dtype(k));
    return body;
  };
  const auto next = [&](const std::vector<Tensor>& states, const Expr& t, const std::vector<Var>& indices) {
    nb::list args;
    args.append(one_or_tuple(states));
    args.append(PyExpr{t, 1});
    for (nb::handle index : to_list(indices)) args.append(index);
    te::Body body = to_body(update(*nb::tuple(args)));
    bool same = body.outputs() == types.size();
    for (size_t k = 0; same && k < types.size(); ++k) same = body.dtype(k) == types[k];
    if (!same) raise(ErrorCode::E709, "the next state has the values of the first, of the same types");
    return body;
  };
  return one_or_tuple(te::scan(steps[0], to_shape(shape_value), first, next, name, axis_names));
}

}  // namespace

void bind_tensors(nb::module_& m) {
  nb::module_ te = nb::borrow<nb::module_>(m.attr("te"));
  nb::class_<PyReduction>(m, "Reduction", "A sum, maximum and the like: what te.compute's function may return.");

  nb::class_<ReduceAxis> axis(m, "ReduceAxis", "The range of a reduction.");
  axis.def("__repr__", [](const ReduceAxis& a) { return a.var->name + " in " + to_text(a.extent); })
      .def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()); });
  bind_operators(axis);

  nb::class_<Tensor>(m, "Tensor", "What each element is, without a word on how it is computed.")
      .def_prop_ro("name", &Tensor::name)
      .def_prop_ro("shape", [](const Tensor& t) { return to_tuple(t.shape()); })
      .def_prop_ro("dtype", [](const Tensor& t) { return t.dtype().to_string(); })
      .def_prop_ro("is_placeholder", [](const Tensor& t) { return !t.get()->op; })
      .def("__repr__",
           [](const Tensor& t) {
             std::string shape;
             for (const Expr& e : t.shape()) shape += (shape.empty() ? "" : ", ") + to_text(e);
             return fmt::format("{}: {}[{}]", t.name(), t.dtype().to_string(), shape);
           })
      .def(
          "__getitem__",
          [](const Tensor& t, nb::handle key) {
            const nb::object list =
                PyTuple_Check(key.ptr()) ? nb::borrow(key) : nb::object(nb::make_tuple(nb::borrow(key)));
            std::vector<Expr> indices;
            int depth = 0;
            for (nb::handle item : list) {
              const PyExpr index = to_index(item, "an index");
              depth = std::max(depth, index.depth);
              indices.push_back(index.expr);
            }
            if (indices.size() != t.shape().size())
              raise(ErrorCode::E709,
                    fmt::format("tensor {} has {} dimensions, not {}", t.name(), t.shape().size(), indices.size()));
            if (depth >= kMaxDepth) raise(ErrorCode::E709, "an index is too deep an expression");
            return PyExpr{t.at(std::move(indices)), depth + 1};
          },
          "An element; one index a dimension.");

  te.def(
      "placeholder",
      [](nb::handle shape, const std::string& dtype, const std::string& name) {
        return te::placeholder(to_shape(shape), to_dtype(dtype), checked_name(name, "a tensor"));
      },
      nb::arg("shape"), nb::arg("dtype") = "f32", nb::arg("name") = "placeholder", "An input of that shape.");
  te.def(
      "reduce_axis",
      [](nb::handle dom, const std::string& name) {
        checked_name(name, "an axis");
        if (PyTuple_Check(dom.ptr())) {
          if (nb::len(dom) != 2 || !is_zero(to_index(dom[0], "a bound").expr))
            raise(ErrorCode::E709, "the range of a reduction is its extent n, or (0, n)");
          return te::reduce_axis(to_shape(dom[1])[0], name);
        }
        return te::reduce_axis(to_shape(dom).at(0), name);
      },
      nb::arg("dom"), nb::arg("name") = "k", "The range 0 … n - 1 of a reduction, as n or (0, n).");
  te.def("sum", &reduction<te::sum>, nb::arg("expr"), nb::arg("axis"), "The sum of an expression over reduction axes.");
  te.def("prod", &reduction<te::prod>, nb::arg("expr"), nb::arg("axis"), "The product over reduction axes.");
  te.def("max", &reduction<te::max>, nb::arg("expr"), nb::arg("axis"), "The greatest value over reduction axes.");
  te.def("min", &reduction<te::min>, nb::arg("expr"), nb::arg("axis"), "The least value over reduction axes.");
  te.def("argmax", &arg_reduction<te::argmax>, nb::arg("index"), nb::arg("value"), nb::arg("axis"),
         "The index of the greatest value, the first of several, and the value.");
  te.def("argmin", &arg_reduction<te::argmin>, nb::arg("index"), nb::arg("value"), nb::arg("axis"),
         "The index of the least value, the first of several, and the value.");
  te.def(
      "reduce", &general_reduction, nb::arg("combine"), nb::arg("source"), nb::arg("identity"), nb::arg("axis"),
      "combine(state, source) over the axes, from `identity`; with a tuple of sources, states are tuples. It must be "
      "associative\nand commutative, since schedules reorder it: te.reduce(lambda x, y: x * y, A[i, k], 1, k) is "
      "te.prod.");
  te.def("_scan", &scan, nb::arg("steps"), nb::arg("shape"), nb::arg("init"), nb::arg("update"), nb::arg("name"),
         nb::arg("axis_names"));
  te.def("_compute", &compute, nb::arg("shape"), nb::arg("fn"), nb::arg("name"), nb::arg("axis_names"));
  te.def(
      "pad",
      [](const Tensor& t, nb::handle before, nb::handle after, nb::handle value, const std::string& name) {
        checked_name(name, "a tensor");
        const auto widths = [&](nb::handle list) {
          std::vector<Expr> result;
          for (nb::handle width : nb::borrow(list)) {
            const PyExpr e = to_index(width, "a width");
            if (const int64_t* n = as_int(e.expr); !n || *n < 0)
              raise(ErrorCode::E709, "a width of padding is a number, at least 0");
            result.push_back(e.expr);
          }
          if (result.size() != t.shape().size()) raise(ErrorCode::E709, "padding has one width for each dimension");
          return result;
        };
        return te::pad(t, widths(before), widths(after), to_expr(value, t.dtype()).expr, name);
      },
      nb::arg("tensor"), nb::arg("before"), nb::arg("after"), nb::arg("value") = 0, nb::arg("name") = "pad",
      "The tensor surrounded by a value.");
  te.def(
      "create_func",
      [](const std::string& name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
         const std::vector<Tensor>& constants) {
        on_owner_thread();
        checked_name(name, "a program");
        if (outputs.empty()) raise(ErrorCode::E102, "a program has at least one output");
        te::FuncOptions options;
        for (const Tensor& input : inputs)
          options.input_kinds.push_back(std::ranges::find(constants, input) != constants.end() ? ParamKind::kConstant
                                                                                               : ParamKind::kInput);
        for (const Tensor& constant : constants)
          if (std::ranges::find(inputs, constant) == inputs.end())
            raise(ErrorCode::E102, "constant " + constant.name() + " is not among the inputs");
        return PyFunc{take(te::make_func(name, inputs, outputs, options))};
      },
      nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("constants") = nb::list(),
      "The loop program, in its plainest form: one block a tensor. Constants are inputs whose content is known when it "
      "is "
      "compiled.");
}

}  // namespace fettle::python
