#include "frontend/comprehension/expression.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/parser.h"
#include "graph/op_util.h"

namespace fettle::comprehension {
namespace {

tl::unexpected<Diagnostic> wrong(Place place, std::string message) {
  return fail(ErrorCode::E612, std::move(message), to_string(place));
}

Value of_index(Expr expr, Form form) { return {std::move(expr), kI32, false, std::move(form)}; }

const Affine* affine_of(const Value& value) {
  return value.index && value.index->kind == IndexForm::Kind::kAffine ? &value.index->affine : nullptr;
}

Form combined(IndexForm::Kind kind, const Value& a, const Value& b) {
  return std::make_shared<const IndexForm>(IndexForm{kind, {}, a.index, b.index});
}
Form of_data() { return std::make_shared<const IndexForm>(); }

Form sum_form(const Value& a, const Value& b, bool is_difference) {
  if (affine_of(a) && affine_of(b))
    return affine_form(is_difference ? *affine_of(a) - *affine_of(b) : *affine_of(a) + *affine_of(b));
  if (!is_difference) return combined(IndexForm::Kind::kSum, a, b);
  // a - b where b is no sum: its interval would have to be turned round.
  if (!affine_of(b)) return of_data();
  const Value minus{b.expr, kI32, false, affine_form(*affine_of(b) * Dim(-1))};
  return combined(IndexForm::Kind::kSum, a, minus);
}

Form product_form(const Value& a, const Value& b) {
  const Affine *x = affine_of(a), *y = affine_of(b);
  if (x && y && y->is_constant()) return affine_form(*x * y->constant);
  if (x && y && x->is_constant()) return affine_form(*y * x->constant);
  return combined(IndexForm::Kind::kProduct, a, b);
}

// By what is at least 1.
bool is_divisor(const Value& b) {
  return affine_of(b) && affine_of(b)->is_constant() && affine_of(b)->constant.min() >= 1;
}

// Rounds down. A quotient by 0 is 0, and a remainder is the dividend.
Expr quotient(const Expr& a, const Expr& b) {
  if (const int64_t* number = as_int(b); number && *number > 0) return floordiv(a, b);
  const Expr zero = int_imm(0, b.dtype()), one = int_imm(1, b.dtype());
  const bool is_signed = b.dtype().code != TypeCode::kUInt;
  const Expr minus_one = int_imm(-1, b.dtype());
  const Expr is_zero = eq(b, zero);
  const Expr is_special = is_signed ? logical_or(is_zero, eq(b, minus_one)) : is_zero;
  Expr result = floordiv(a, select(is_special, one, b));
  if (is_signed) result = select(eq(b, minus_one), zero - a, result);
  return select(is_zero, zero, result);
}
Expr remainder(const Expr& a, const Expr& b) {
  if (const int64_t* number = as_int(b); number && *number > 0) return floormod(a, b);
  return a - quotient(a, b) * b;
}

std::string types_text(const Value& a, const Value& b) {
  return fmt::format("{} and {}", type_name(a.dtype), type_name(b.dtype));
}

bool is_arithmetic(std::string_view symbol) {
  return symbol == "+" || symbol == "-" || symbol == "*" || symbol == "/" || symbol == "%";
}

// Of values that are both literals, f64; else of their common type.
struct Operands {
  Expr a, b;
  DType dtype;
  bool is_literal;
};
Operands operands(const Value& a, const Value& b) {
  if (a.is_literal && b.is_literal) return {a.expr, b.expr, kF32, true};
  DType dtype = a.is_literal && b.dtype.is_float()   ? b.dtype
                : b.is_literal && a.dtype.is_float() ? a.dtype
                                                     : common_type(a.dtype, b.dtype);
  return {as_type(a, dtype), as_type(b, dtype), dtype, false};
}

}  // namespace

DType common_type(DType a, DType b) {
  if (a == b) return a;
  if (a.is_bool()) return b;
  if (b.is_bool()) return a;
  if (a.is_float() != b.is_float()) return a.is_float() ? a : b;
  if (a.is_float()) return a.bits == b.bits ? kF32 : a.bits > b.bits ? a : b;
  const uint8_t bits = std::max(a.bits, b.bits);
  return {a.code == b.code ? a.code : TypeCode::kInt, bits, 1};
}

Expr as_type(const Value& value, DType dtype) {
  const DType to = computed_dtype(dtype);
  const Expr& x = value.expr;
  if (x.dtype() == to) return x;
  if (const auto* number = x.as<FloatImmNode>(); number && to.is_float()) return constant(number->value, to);
  if (const int64_t* number = as_int(x); number && value.index && !to.is_bool())
    return to.is_float() ? constant(static_cast<double>(*number), to) : int_imm(*number, to);
  if (to.is_bool()) return ne(x, constant(0, x.dtype()));
  if (x.dtype().is_bool()) return select(x, constant(1, to), constant(0, to));
  return cast(to, x);
}

bool fits(const Value& value, DType dtype) {
  if (value.is_literal) return dtype.is_float();
  if (value.index && affine_of(value) && affine_of(value)->is_constant() && affine_of(value)->constant.is_number()) {
    // A number that the type has.
    if (!dtype.is_int()) return !dtype.is_bool();
    const int64_t number = affine_of(value)->constant.value();
    const int bits = dtype.bits - (dtype.code == TypeCode::kInt ? 1 : 0);
    const bool is_small = bits >= 63 || number < (int64_t{1} << bits);
    return is_small &&
           (number >= 0 || (dtype.code == TypeCode::kInt && (bits >= 63 || number >= -(int64_t{1} << bits))));
  }
  return value.dtype == dtype || common_type(value.dtype, dtype) == dtype;
}

void ExpressionReader::restart(std::function<Expr(const std::string&)> index, ReadFn element) {
  index_ = std::move(index);
  element_ = std::move(element);
  lets_.clear();
  used_.clear();
  next_access_ = 0;
  is_again_ = true;
}

Result<> ExpressionReader::add_index(const std::string& name, Place place) {
  const char* taken = scope_.tensors.contains(name) ? "a tensor"
                      : scope_.sizes.contains(name) ? "a size"
                      : loops_.find(name)           ? "a loop's variable"
                      : lets_.contains(name)        ? "the name of a value"
                                                    : nullptr;
  if (taken) return wrong(place, fmt::format("{} is {}, and no index", name, taken));
  if (std::ranges::find(indices_, name) == indices_.end()) indices_.push_back(name);
  return {};
}

Result<> ExpressionReader::let(const std::string& name, const ExprTree& tree) {
  std::set<std::string, std::less<>> before = take_used();
  FETTLE_TRY(Value value, read(tree));
  const bool is_taken = scope_.tensors.contains(name) || scope_.sizes.contains(name) || loops_.find(name) ||
                        lets_.contains(name) || std::ranges::find(indices_, name) != indices_.end();
  if (is_taken) return wrong(tree.place, fmt::format("{} is the name of something else", name));
  lets_.emplace(name, Let{std::move(value), std::exchange(used_, std::move(before))});
  return {};
}

Result<Affine> ExpressionReader::read_bound(const ExprTree& tree) {
  const size_t before = accesses_.size(), next = next_access_;
  FETTLE_TRY(const Value value, read(tree));
  if (accesses_.size() != before || next_access_ != next)
    return wrong(tree.place, "a bound is made of sizes and numbers: no tensor can be read in it");
  if (!value.index)
    return wrong(tree.place, fmt::format("a bound is an integer, and this is {}", type_name(value.dtype)));
  if (const Affine* affine = affine_of(value)) return *affine;
  // Of sizes alone, other operations are known, too.
  const Ranges none;
  if (const auto known = none.interval(*value.index); known && known->least == known->most) return Affine{known->least};
  return wrong(tree.place, "a bound is a sum of sizes, of loop variables times numbers, and of numbers");
}

Result<Value> ExpressionReader::read(const ExprTree& tree) {
  switch (tree.kind) {
    case ExprKind::kInteger:
      return of_index(Expr(tree.integer), affine_form({tree.integer}));
    case ExprKind::kReal:
      return tree.is_single ? Value{float_imm(static_cast<float>(tree.real), kF32), kF32}
                            : Value{float_imm(tree.real, kF64), kF32, true};
    case ExprKind::kBool:
      return Value{bool_imm(tree.integer != 0), kBool};
    case ExprKind::kName:
      return name(tree);
    case ExprKind::kExtent:
      return extent(tree);
    case ExprKind::kApply:
      return apply(tree);
    case ExprKind::kUnary:
      return unary(tree);
    case ExprKind::kBinary:
      return binary(tree);
    case ExprKind::kConditional:
      return conditional(tree);
    case ExprKind::kCast:
      break;
  }
  FETTLE_TRY(const Value value, read(tree.args[0]));
  // What is cast to a half is rounded to one.
  if (tree.dtype != computed_dtype(tree.dtype))
    return Value{cast(kF32, cast(tree.dtype, as_type(value, kF32))), tree.dtype};
  return Value{as_type(value, tree.dtype), tree.dtype};
}

Result<Value> ExpressionReader::name(const ExprTree& tree) {
  if (const auto let = lets_.find(tree.text); let != lets_.end()) {
    used_.insert(let->second.used.begin(), let->second.used.end());
    return let->second.value;
  }
  if (const auto tensor = scope_.tensors.find(tree.text); tensor != scope_.tensors.end())
    return access(tree, tensor->second);
  if (const auto size = scope_.sizes.find(tree.text); size != scope_.sizes.end())
    return of_index(size_expr(size->second), affine_form({size->second}));
  if (!loops_.find(tree.text)) FETTLE_TRY_VOID(add_index(tree.text, tree.place));
  used_.insert(tree.text);
  return of_index(index_ ? index_(tree.text) : Expr(make_var(tree.text)), affine_form(Affine::variable(tree.text)));
}

Result<Value> ExpressionReader::extent(const ExprTree& tree) {
  const auto found = scope_.tensors.find(tree.text);
  if (found == scope_.tensors.end()) return wrong(tree.place, fmt::format("there is no tensor {} yet", tree.text));
  const std::vector<Dim>& extents = found->second.extents;
  if (tree.integer >= static_cast<int64_t>(extents.size()))
    return wrong(tree.place, fmt::format("{} has {} dims, and no dim {}", tree.text, extents.size(), tree.integer));
  const Dim& dim = extents[static_cast<size_t>(tree.integer)];
  return of_index(size_expr(dim), affine_form({dim}));
}

Result<Value> ExpressionReader::access(const ExprTree& tree, const TensorInfo& tensor) {
  if (tree.args.size() != tensor.extents.size())
    return wrong(tree.place, fmt::format("{} has {} dims, and {} indices stand here", tree.text, tensor.extents.size(),
                                         tree.args.size()));
  Access made{tree.text, tree.place, {}, guards_ > 0, true};
  std::vector<Expr> indices;
  for (size_t d = 0; d < tree.args.size(); ++d) {
    FETTLE_TRY(const Value index, read(tree.args[d]));
    if (!index.dtype.is_int())
      return wrong(tree.args[d].place, fmt::format("an index is an integer, and this is {}", type_name(index.dtype)));
    const Dim& base = tensor.base[d];
    indices.push_back((index.index ? index.expr : cast(kI64, index.expr)) - size_expr(base));
    made.indices.push_back(!index.index       ? of_data()
                           : affine_of(index) ? affine_form(*affine_of(index) - Affine{base})
                           : base == Dim(0)
                               ? index.index
                               : combined(IndexForm::Kind::kSum, index, of_index(Expr(0), affine_form({0 - base}))));
    const auto& form = *made.indices.back();
    made.is_plain = made.is_plain && form.kind == IndexForm::Kind::kAffine &&
                    (form.affine.is_constant() || (form.affine.terms.size() == 1 && form.affine.constant == Dim(0) &&
                                                   form.affine.terms.begin()->second == Dim(1)));
  }
  if (!is_again_) {
    held_.emplace_back(indices.size(), false);
    accesses_.push_back(std::move(made));
    return Value{make_var(tree.text, computed_dtype(tensor.dtype)), tensor.dtype};
  }
  const std::vector<bool>& held = held_[next_access_++];
  for (size_t d = 0; d < indices.size(); ++d)
    if (held[d]) indices[d] = ops::clamp(indices[d], Expr(0), size_expr(tensor.extents[d]) - Expr(1));
  return Value{element_(tree.text, std::move(indices), computed_dtype(tensor.dtype)), tensor.dtype};
}

Result<Value> ExpressionReader::apply(const ExprTree& tree) {
  if (const auto tensor = scope_.tensors.find(tree.text); tensor != scope_.tensors.end())
    return access(tree, tensor->second);
  const bool is_min = tree.text == "min", is_max = tree.text == "max";
  const Builtin* builtin = find_builtin(tree.text);
  if (!builtin && !is_min && !is_max)
    return wrong(tree.place,
                 scope_.functions.contains(tree.text)
                     ? fmt::format("{0} is a function of whole tensors, whose call stands alone: B = {0}(A)", tree.text)
                     : fmt::format("there is no tensor and no function {}", tree.text));
  const size_t n_args = builtin ? builtin->n_args : 2;
  if (tree.args.size() != n_args)
    return wrong(tree.place,
                 fmt::format("{} takes {} arguments, and {} are given", tree.text, n_args, tree.args.size()));
  std::vector<Value> args;
  for (const ExprTree& arg : tree.args) {
    FETTLE_TRY(args.emplace_back(), read(arg));
  }
  if (!builtin) {
    const auto op = is_min ? BinaryOp::kMin : BinaryOp::kMax;
    const auto kind = is_min ? IndexForm::Kind::kMin : IndexForm::Kind::kMax;
    if (args[0].index && args[1].index)
      return of_index(fettle::binary(op, args[0].expr, args[1].expr), combined(kind, args[0], args[1]));
    const Operands both = operands(args[0], args[1]);
    return Value{fettle::binary(op, both.a, both.b), both.dtype, both.is_literal};
  }
  if (!builtin->make)
    return fail(ErrorCode::E603, fmt::format("{} is not supported", tree.text), to_string(tree.place));
  // As CUDA's: of floats, single precision at least.
  DType dtype = kF32;
  bool is_literal = true, is_half = true;
  for (const Value& arg : args) {
    is_literal = is_literal && arg.is_literal;
    is_half = is_half && !arg.is_literal && arg.dtype.is_float() && arg.dtype.bits == 16;
    if (!arg.is_literal && arg.dtype == kF64) dtype = kF64;
  }
  std::vector<Expr> exprs;
  for (const Value& arg : args) exprs.push_back(is_literal ? arg.expr : as_type(arg, dtype));
  return Value{builtin->make(exprs), is_half ? args[0].dtype : dtype, is_literal};
}

Result<Value> ExpressionReader::unary(const ExprTree& tree) {
  FETTLE_TRY(const Value value, read(tree.args[0]));
  if (tree.text == "!") {
    if (!value.dtype.is_bool())
      return wrong(tree.place, fmt::format("! takes a bool, and this is {}", type_name(value.dtype)));
    return Value{logical_not(value.expr), kBool};
  }
  if (value.dtype.is_bool()) return wrong(tree.place, "a bool has no negative; cast it");
  const Value zero = of_index(Expr(0), affine_form({0}));
  if (value.index) return of_index(Expr(0) - value.expr, sum_form(zero, value, true));
  if (const auto* number = value.expr.as<FloatImmNode>())
    return Value{float_imm(-number->value, value.expr.dtype()), value.dtype, value.is_literal};
  const DType dtype = value.expr.dtype();
  return Value{dtype.is_float() ? value.expr * constant(-1, dtype) : int_imm(0, dtype) - value.expr, value.dtype,
               value.is_literal};
}

Result<Value> ExpressionReader::guarded(const ExprTree& tree) {
  ++guards_;
  Result<Value> value = read(tree);
  --guards_;
  return value;
}

Result<Value> ExpressionReader::binary(const ExprTree& tree) {
  const std::string_view symbol = tree.text;
  const bool is_logic = symbol == "&&" || symbol == "||";
  FETTLE_TRY(const Value a, read(tree.args[0]));
  FETTLE_TRY(const Value b, is_logic ? guarded(tree.args[1]) : read(tree.args[1]));
  if (is_logic) {
    if (!a.dtype.is_bool() || !b.dtype.is_bool())
      return wrong(tree.place, fmt::format("{} takes bools, and these are {}", symbol, types_text(a, b)));
    return Value{symbol == "&&" ? logical_and(a.expr, b.expr) : logical_or(a.expr, b.expr), kBool};
  }
  if (is_arithmetic(symbol)) {
    if (a.dtype.is_bool() && b.dtype.is_bool())
      return wrong(tree.place, fmt::format("{} takes numbers, and both are bools; cast them", symbol));
    if (a.index && b.index) {
      if (symbol == "+") return of_index(a.expr + b.expr, sum_form(a, b, false));
      if (symbol == "-") return of_index(a.expr - b.expr, sum_form(a, b, true));
      if (symbol == "*") return of_index(a.expr * b.expr, product_form(a, b));
      const auto kind = symbol == "/" ? IndexForm::Kind::kFloorDiv : IndexForm::Kind::kFloorMod;
      return of_index(symbol == "/" ? quotient(a.expr, b.expr) : remainder(a.expr, b.expr),
                      is_divisor(b) ? combined(kind, a, b) : of_data());
    }
    const Operands both = operands(a, b);
    const bool is_float = both.a.dtype().is_float();
    Expr result = symbol == "+"   ? both.a + both.b
                  : symbol == "-" ? both.a - both.b
                  : symbol == "*" ? both.a * both.b
                  : symbol == "/" ? (is_float ? both.a / both.b : quotient(both.a, both.b))
                  : is_float      ? both.a - both.b * math("floor", {both.a / both.b})
                                  : remainder(both.a, both.b);
    return Value{std::move(result), both.dtype, both.is_literal};
  }
  Expr x = a.expr, y = b.expr;
  if (!a.index || !b.index) {
    const Operands both = operands(a, b);
    x = both.a;
    y = both.b;
  }
  Expr result = symbol == "=="   ? eq(x, y)
                : symbol == "!=" ? ne(x, y)
                : symbol == "<"  ? lt(x, y)
                : symbol == "<=" ? le(x, y)
                : symbol == ">"  ? gt(x, y)
                                 : ge(x, y);
  return Value{std::move(result), kBool};
}

Result<Value> ExpressionReader::conditional(const ExprTree& tree) {
  FETTLE_TRY(const Value condition, read(tree.args[0]));
  if (!condition.dtype.is_bool())
    return wrong(tree.args[0].place,
                 fmt::format("a condition is a bool, and this is {}; compare it", type_name(condition.dtype)));
  FETTLE_TRY(const Value a, guarded(tree.args[1]));
  FETTLE_TRY(const Value b, guarded(tree.args[2]));
  if (a.index && b.index)
    return of_index(select(condition.expr, a.expr, b.expr), combined(IndexForm::Kind::kEither, a, b));
  const Operands both = operands(a, b);
  return Value{select(condition.expr, both.a, both.b), both.dtype, both.is_literal};
}

}  // namespace fettle::comprehension
