// Expressions: numbers, operators and functions, checked, since a tree that makes no sense cannot be built.

#include "expr.h"

#include <fmt/format.h>

#include <nanobind/stl/string.h>

#include "ir/text.h"
#include "ir/text_rules.h"
#include "te/tensor.h"

namespace fettle::python {
namespace {

[[noreturn]] void type_error(const std::string& text) { throw nb::type_error(text.c_str()); }

bool is_number(nb::handle h) {
  return PyFloat_Check(h.ptr()) || PyIndex_Check(h.ptr()) ||
         (Py_TYPE(h.ptr())->tp_as_number && Py_TYPE(h.ptr())->tp_as_number->nb_float);
}

Expr int_literal(int64_t value, DType type) {
  if (type.is_float()) return float_imm(static_cast<double>(value), type);
  const bool is_signed = type.code == TypeCode::kInt;
  const bool fits = type.is_bool()    ? value == 0 || value == 1
                    : type.bits == 64 ? is_signed || value >= 0
                                      : (is_signed ? value >= -(int64_t{1} << (type.bits - 1)) &&
                                                         value < int64_t{1} << (type.bits - 1)
                                                   : value >= 0 && value < int64_t{1} << type.bits);
  if (!fits) raise(ErrorCode::E709, fmt::format("{} is no {}", value, type.to_string()));
  return int_imm(value, type);
}

PyExpr make(Expr e, int depth) {
  if (depth > kMaxDepth) raise(ErrorCode::E709, fmt::format("an expression is more than {} levels deep", kMaxDepth));
  return {std::move(e), depth};
}

// Two operands of one type: a number takes the type of the other.
std::pair<PyExpr, PyExpr> operands(nb::handle a, nb::handle b, const char* what) {
  PyExpr x, y;
  if (is_number(a) && !is_number(b)) {
    y = to_expr(b);
    x = to_expr(a, y.expr.dtype());
  } else {
    x = to_expr(a);
    y = is_number(b) ? to_expr(b, x.expr.dtype()) : to_expr(b);
  }
  if (x.expr.dtype() != y.expr.dtype())
    raise(ErrorCode::E709, fmt::format("{} of {} and {}: convert one of them with te.cast", what,
                                       x.expr.dtype().to_string(), y.expr.dtype().to_string()));
  return {std::move(x), std::move(y)};
}

PyExpr binary_op(BinaryOp op, nb::handle a, nb::handle b) {
  auto [x, y] = operands(a, b, text::operator_info(op).symbol);
  const DType type = x.expr.dtype();
  const auto needs = [&](bool ok, const char* kind) {
    if (!ok)
      raise(ErrorCode::E709,
            fmt::format("{} is for {}, and this is {}", text::operator_info(op).symbol, kind, type.to_string()));
  };
  switch (op) {
    case BinaryOp::kDiv:
      needs(type.is_float(), "floats (integers have //)");
      break;
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      needs(type.is_int(), "integers");
      const int64_t* divisor = as_int(y.expr);
      if (divisor && *divisor == 0) raise(ErrorCode::E709, "division by zero");
      if (divisor && *divisor == -1) raise(ErrorCode::E709, "division by -1: write a minus sign");
      break;
    }
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
      needs(type.is_bool(), "conditions");
      break;
    case BinaryOp::kShl:
    case BinaryOp::kShr: {
      needs(type.is_int(), "integers");
      const int64_t* by = as_int(y.expr);
      if (!by || *by < 0 || *by >= type.bits) raise(ErrorCode::E709, "a shift is by a number of bits of the type");
      break;
    }
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      needs(type.is_int(), "integers");
      break;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      break;
    default:
      needs(type.is_float() || type.is_int(), "numbers");
  }
  return make(binary(op, x.expr, y.expr), std::max(x.depth, y.depth) + 1);
}

template <BinaryOp op>
PyExpr forward(nb::handle a, nb::handle b) {
  return binary_op(op, a, b);
}
template <BinaryOp op>
PyExpr backward(nb::handle b, nb::handle a) {
  return binary_op(op, a, b);
}
PyExpr greater(nb::handle a, nb::handle b) { return binary_op(BinaryOp::kLt, b, a); }
PyExpr greater_equal(nb::handle a, nb::handle b) { return binary_op(BinaryOp::kLe, b, a); }
// & and | are logical for conditions, bitwise for integers.
template <BinaryOp logical, BinaryOp bitwise>
PyExpr either(nb::handle a, nb::handle b) {
  const bool condition = to_expr(is_number(a) ? b : a).expr.dtype().is_bool();
  return binary_op(condition ? logical : bitwise, a, b);
}
PyExpr negative(nb::handle a) {
  const PyExpr x = to_expr(a);
  if (!x.expr.dtype().is_float() && !x.expr.dtype().is_int()) raise(ErrorCode::E709, "- is for numbers");
  return make(constant(0, x.expr.dtype()) - x.expr, x.depth + 1);
}
PyExpr inverse(nb::handle a) {
  const PyExpr x = to_expr(a);
  if (!x.expr.dtype().is_bool()) raise(ErrorCode::E709, "~ is for conditions");
  return make(logical_not(x.expr), x.depth + 1);
}

struct MathName {
  const char* name;
  const char* meaning;
};
constexpr MathName kMath[] = {{"exp", "e to the power of x."},
                              {"log", "The natural logarithm."},
                              {"sqrt", "The square root."},
                              {"rsqrt", "1 / sqrt(x)."},
                              {"sin", "The sine of an angle in radians."},
                              {"cos", "The cosine of an angle in radians."},
                              {"tanh", "The hyperbolic tangent."},
                              {"erf", "The error function of Gauss."},
                              {"sigmoid", "1 / (1 + exp(-x))."},
                              {"floor", "The greatest whole number that is not above x."},
                              {"ceil", "The least whole number that is not below x."},
                              {"round", "The nearest whole number, of two the even one."},
                              {"trunc", "The whole part."},
                              {"abs", "The value without its sign."}};

}  // namespace

DType to_dtype(const std::string& name) {
  static constexpr std::pair<const char*, DType> kNames[] = {
      {"float32", kF32}, {"float64", kF64}, {"float16", kF16}, {"bfloat16", kBF16}, {"int8", kI8},    {"int16", kI16},
      {"int32", kI32},   {"int64", kI64},   {"uint8", kU8},    {"uint16", kU16},    {"uint32", kU32}, {"uint64", kU64}};
  for (const auto& [known, type] : kNames)
    if (name == known) return type;
  const DType type = take(parse_dtype(name));
  if (type.is_vector() || type.code == TypeCode::kHandle) raise(ErrorCode::E709, name + " is no element type");
  return type;
}

std::string numpy_name(DType dtype) {
  if (dtype.is_bool()) return "bool";
  const char* kind = dtype.code == TypeCode::kInt      ? "int"
                     : dtype.code == TypeCode::kUInt   ? "uint"
                     : dtype.code == TypeCode::kBFloat ? "bfloat"
                                                       : "float";
  return fmt::format("{}{}", kind, static_cast<int>(dtype.bits));
}

const std::string& checked_name(const std::string& name, const char* what) {
  if (!text::is_identifier(name) || text::is_reserved(name))
    raise(ErrorCode::E709, fmt::format("{} cannot be the name of {}", nb::repr(nb::str(name.c_str())).c_str(), what));
  return name;
}

PyExpr to_expr(nb::handle value, std::optional<DType> like) {
  PyExpr* known = nullptr;
  if (nb::try_cast(value, known) && known) return *known;
  te::ReduceAxis* axis = nullptr;
  if (nb::try_cast(value, axis) && axis) return {axis->var, 1};
  if (PyBool_Check(value.ptr())) return {bool_imm(value.is(nb::handle(Py_True))), 1};
  if (PyIndex_Check(value.ptr())) {
    const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    return {int_literal(nb::cast<int64_t>(number), like.value_or(kI64)), 1};
  }
  if (is_number(value)) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
    const DType type = like.value_or(kF32);
    if (!type.is_float()) raise(ErrorCode::E709, fmt::format("{} is no {}", number, type.to_string()));
    return {float_imm(number, type), 1};
  }
  type_error(fmt::format("no expression: {}", nb::repr(value).c_str()));
}

PyExpr to_index(nb::handle value, const char* what) {
  PyExpr e = to_expr(value);
  if (e.expr.dtype() != kI64)
    raise(ErrorCode::E709,
          fmt::format("{} is an i64, and {} is {}", what, to_text(e.expr), e.expr.dtype().to_string()));
  return e;
}

void bind_operators(nb::handle cls) {
  const auto def = [&](const char* name, auto* fn) {
    cls.attr(name) = nb::cpp_function(fn, nb::is_method(), nb::scope(cls), nb::name(name));
  };
  def("__add__", &forward<BinaryOp::kAdd>);
  def("__radd__", &backward<BinaryOp::kAdd>);
  def("__sub__", &forward<BinaryOp::kSub>);
  def("__rsub__", &backward<BinaryOp::kSub>);
  def("__mul__", &forward<BinaryOp::kMul>);
  def("__rmul__", &backward<BinaryOp::kMul>);
  def("__truediv__", &forward<BinaryOp::kDiv>);
  def("__rtruediv__", &backward<BinaryOp::kDiv>);
  def("__floordiv__", &forward<BinaryOp::kFloorDiv>);
  def("__rfloordiv__", &backward<BinaryOp::kFloorDiv>);
  def("__mod__", &forward<BinaryOp::kFloorMod>);
  def("__rmod__", &backward<BinaryOp::kFloorMod>);
  def("__lshift__", &forward<BinaryOp::kShl>);
  def("__rshift__", &forward<BinaryOp::kShr>);
  def("__xor__", &forward<BinaryOp::kBitXor>);
  def("__and__", &either<BinaryOp::kAnd, BinaryOp::kBitAnd>);
  def("__or__", &either<BinaryOp::kOr, BinaryOp::kBitOr>);
  def("__eq__", &forward<BinaryOp::kEq>);
  def("__ne__", &forward<BinaryOp::kNe>);
  def("__lt__", &forward<BinaryOp::kLt>);
  def("__le__", &forward<BinaryOp::kLe>);
  def("__gt__", &greater);
  def("__ge__", &greater_equal);
  def("__neg__", &negative);
  def("__invert__", &inverse);
}

void bind_expressions(nb::module_& m) {
  nb::class_<PyExpr> expr(m, "Expr", "An expression of a tensor's elements.");
  expr.def("__repr__", [](const PyExpr& e) { return to_text(e.expr); })
      .def_prop_ro("dtype", [](const PyExpr& e) { return e.expr.dtype().to_string(); })
      .def("__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()); })
      .def("__bool__", [](const PyExpr& e) -> bool {
        type_error("the value of " + to_text(e.expr) + " is known when the program runs: use te.select, & and |");
      });
  bind_operators(expr);

  nb::module_ te = nb::borrow<nb::module_>(m.attr("te"));
  te.def(
      "var", [](const std::string& name) { return PyExpr{make_var(checked_name(name, "a variable")), 1}; },
      nb::arg("name") = "n", "An integer of which nothing is known when the program is compiled.");
  te.def(
      "const", [](nb::handle value, const std::string& dtype) { return to_expr(value, to_dtype(dtype)); },
      nb::arg("value"), nb::arg("dtype") = "f32", "A number of that type.");
  te.def(
      "min_value", [](nb::handle a, nb::handle b) { return binary_op(BinaryOp::kMin, a, b); }, "The smaller of two.");
  te.def("max_value", [](nb::handle a, nb::handle b) { return binary_op(BinaryOp::kMax, a, b); }, "The larger of two.");
  te.def(
      "select",
      [](nb::handle condition, nb::handle if_true, nb::handle if_false) {
        const PyExpr c = to_expr(condition);
        if (!c.expr.dtype().is_bool()) raise(ErrorCode::E709, "select chooses by a condition");
        auto [x, y] = operands(if_true, if_false, "select");
        return make(select(c.expr, x.expr, y.expr), std::max({c.depth, x.depth, y.depth}) + 1);
      },
      nb::arg("condition"), nb::arg("if_true"), nb::arg("if_false"),
      "if_true where the condition holds, else if_false.");
  te.def(
      "likely",
      [](nb::handle condition) {
        const PyExpr c = to_expr(condition);
        if (!c.expr.dtype().is_bool()) raise(ErrorCode::E709, "likely marks a condition");
        return make(call("likely", {c.expr}, kBool), c.depth + 1);
      },
      "A condition that nearly always holds, such as being inside of a padded image.");
  te.def(
      "cast",
      [](nb::handle value, const std::string& dtype) {
        const PyExpr x = to_expr(value);
        return make(cast(to_dtype(dtype), x.expr), x.depth + 1);
      },
      nb::arg("value"), nb::arg("dtype"), "The value in another type.");
  te.def(
      "pow",
      [](nb::handle a, nb::handle b) {
        auto [x, y] = operands(a, b, "pow");
        if (!x.expr.dtype().is_float()) raise(ErrorCode::E709, "pow is for floats");
        return make(math("pow", {x.expr, y.expr}), std::max(x.depth, y.depth) + 1);
      },
      nb::arg("x"), nb::arg("y"), "x to the power of y.");
  for (const auto& [named, meaning] : kMath)
    te.def(
        named,
        [name = named](nb::handle value) {
          const PyExpr x = to_expr(value);
          if (!x.expr.dtype().is_float())
            raise(ErrorCode::E709, fmt::format("{} is for floats, and this is {}", name, x.expr.dtype().to_string()));
          return make(math(name, {x.expr}), x.depth + 1);
        },
        nb::arg("x"), meaning);
}

}  // namespace fettle::python
