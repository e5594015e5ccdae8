// Expressions as text. Types: Dialect::value_type; what operators mean: ir/interpret.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/c_family/source_printer.h"

namespace fettle::c_family {
namespace {

bool is_small(DType t) { return t.is_float() && t.bits == 16; }
/// The type in which floats of type t are computed.
DType computed(DType t) { return is_small(t) ? kF32 : t; }

std::string float_literal(double v, DType type) {
  const bool single = type.bits != 64;
  if (std::isnan(v)) return single ? "NAN" : "(double)NAN";
  if (std::isinf(v)) return std::string(single ? "" : "(double)") + (v < 0 ? "-" : "") + "INFINITY";
  std::string text = single ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

std::string int_literal(int64_t v, DType type, const Dialect& d, bool typed) {
  if (type.is_bool()) return v ? "true" : "false";
  if (type.code == TypeCode::kUInt) {
    if (type.bits == 64) return fmt::format("{}{}", static_cast<uint64_t>(v), d.u64_suffix);
    return fmt::format("{}{}", v, type.bits == 32 ? "u" : "");
  }
  if (type.bits == 64) {
    if (v == INT64_MIN) return fmt::format("(-9223372036854775807{} - 1)", d.i64_suffix);
    const bool small = v >= -INT32_MAX && v <= INT32_MAX;
    return std::to_string(v) + (typed || !small ? d.i64_suffix : "");
  }
  if (v == INT32_MIN) return "(-2147483647 - 1)";
  return std::to_string(v);
}

bool is_literal(const Expr& e) { return e.kind() == ExprKind::kIntImm; }

// Operators, and the names of the helpers that do the same.
struct Operator {
  BinaryOp op;
  const char* text;
  SourcePrinter::Level level;
  const char* helper = "";
};
constexpr Operator kOperators[] = {
    {BinaryOp::kAdd, "+", SourcePrinter::kSum, "add"},
    {BinaryOp::kSub, "-", SourcePrinter::kSum, "sub"},
    {BinaryOp::kMul, "*", SourcePrinter::kProduct, "mul"},
    {BinaryOp::kDiv, "/", SourcePrinter::kProduct},
    {BinaryOp::kEq, "==", SourcePrinter::kEquality},
    {BinaryOp::kNe, "!=", SourcePrinter::kEquality},
    {BinaryOp::kLt, "<", SourcePrinter::kOrder, "lt"},
    {BinaryOp::kLe, "<=", SourcePrinter::kOrder, "le"},
    {BinaryOp::kAnd, "&&", SourcePrinter::kAnd},
    {BinaryOp::kOr, "||", SourcePrinter::kOr},
    {BinaryOp::kBitAnd, "&", SourcePrinter::kBits},
    {BinaryOp::kBitOr, "|", SourcePrinter::kBits},
    {BinaryOp::kBitXor, "^", SourcePrinter::kBits},
    {BinaryOp::kShl, "<<", SourcePrinter::kShift, "shl"},
    {BinaryOp::kShr, ">>", SourcePrinter::kShift, "shr"},
    {BinaryOp::kMin, "", SourcePrinter::kPrimary, "min"},
    {BinaryOp::kMax, "", SourcePrinter::kPrimary, "max"},
    {BinaryOp::kOrderedMax, "", SourcePrinter::kPrimary, "ordered_max"},
    {BinaryOp::kFloorDiv, "/", SourcePrinter::kProduct, "floordiv"},
    {BinaryOp::kFloorMod, "%", SourcePrinter::kProduct, "floormod"},
};

const Operator& operator_of(BinaryOp op) { return *std::ranges::find(kOperators, op, &Operator::op); }

}  // namespace

std::string literal(const Expr& constant, const Dialect& dialect, bool typed) {
  if (const auto* imm = constant.as<IntImmNode>()) return int_literal(imm->value, constant.dtype(), dialect, typed);
  const auto* imm = constant.as<FloatImmNode>();
  double v = imm->value;
  if (is_small(constant.dtype())) v = static_cast<double>(static_cast<float>(v));
  return float_literal(v, constant.dtype());
}

std::string SourcePrinter::expr(const Expr& e, Level level) {
  const Text text = expr(e);
  return text.level > level ? "(" + text.text + ")" : text.text;
}

std::string SourcePrinter::value(const Expr& e) { return expr(e).text; }

bool SourcePrinter::is_index(const Expr& e) const {
  if (e.dtype() != kI64) return false;
  if (is_literal(e)) return true;
  if (const auto* var = e.as<VarNode>()) return index_vars_.count(var) != 0;
  if (const auto* select = e.as<SelectNode>()) return is_index(select->if_true) && is_index(select->if_false);
  const auto* node = e.as<BinaryNode>();
  if (!node) return false;
  switch (node->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return is_index(node->a) && is_index(node->b);
    default:
      return false;
  }
}

bool SourcePrinter::is_not_negative(const Expr& e) const {
  if (e.dtype() != kI64) return false;
  if (const int64_t* v = as_int(e)) return *v >= 0;
  if (const auto* var = e.as<VarNode>()) {
    const auto found = index_vars_.find(var);
    return found != index_vars_.end() && found->second;
  }
  const auto* node = e.as<BinaryNode>();
  if (!node || !is_index(e)) return false;
  switch (node->op) {
    case BinaryOp::kMax:
      return is_not_negative(node->a) || is_not_negative(node->b);
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kFloorDiv:
      return is_not_negative(node->a) && is_not_negative(node->b);
    case BinaryOp::kFloorMod:
      return as_int(node->b) && *as_int(node->b) > 0;
    default:
      return false;
  }
}

SourcePrinter::Text SourcePrinter::expr(const Expr& e) {
  if (e.dtype().is_vector()) return refused("a vector of type " + e.dtype().to_string() + " is left in the program");
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm: {
      // Constants of 16-bit floats are rounded to their type.
      std::string text;
      if (is_small(e.dtype())) {
        const double v = e.as<FloatImmNode>()->value;
        // Small integers, and what is infinite, are values of every float type.
        const bool is_exact = (v == std::trunc(v) && std::fabs(v) <= 256) || std::isinf(v);
        text = is_exact ? float_literal(v, kF32)
                        : use_helper("round_" + e.dtype().to_string() + "_f64", {float_literal(v, kF64)}).text;
      } else {
        text = literal(e, dialect_);
      }
      const Level level = text[0] == '-' || text[0] == '(' ? kUnary : kPrimary;
      return {std::move(text), level};
    }
    case ExprKind::kVar: {
      const auto found = vars_.find(e.as<VarNode>());
      if (found != vars_.end()) return {found->second};
      return refused("variable " + e.as<VarNode>()->name + " is not bound");
    }
    case ExprKind::kBinary:
      return binary(*e.as<BinaryNode>());
    case ExprKind::kNot:
      return {"!" + expr(e.as<NotNode>()->a, kUnary), kUnary};
    case ExprKind::kSelect: {
      const auto* node = e.as<SelectNode>();
      const bool typed = e.dtype() == kI64;
      const auto side = [&](const Expr& x) {
        return typed && is_literal(x) ? literal(x, dialect_, true) : expr(x, kOr);
      };
      return {fmt::format("{} ? {} : {}", expr(node->condition, kOr), side(node->if_true), side(node->if_false)),
              kTernary};
    }
    case ExprKind::kCast:
      return cast_text(*e.as<CastNode>());
    case ExprKind::kLoad:
      return load_text(*e.as<LoadNode>());
    case ExprKind::kAddress: {
      const auto* node = e.as<AddressNode>();
      return {"&" + element(node->buffer, node->indices), kUnary};
    }
    case ExprKind::kCall:
      return call_text(*e.as<CallNode>());
    case ExprKind::kShuffle: {
      const auto* node = e.as<ShuffleNode>();
      if (node->vectors[0].dtype().lanes == 1) return expr(node->vectors[static_cast<size_t>(node->lanes[0])]);
      return refused("a lane of a vector is taken");
    }
    case ExprKind::kRamp:
    case ExprKind::kBroadcast:
      break;
  }
  return refused("a vector is left in the program");
}

std::string SourcePrinter::element(const Buffer& buffer, const std::vector<Expr>& indices) {
  if (indices.size() != 1) fail_with("an access of " + buffer->name + " is not flat");
  return fmt::format("{}[{}]", place(buffer.get()).name, indices.empty() ? "0" : value(indices[0]));
}

SourcePrinter::Text SourcePrinter::load_text(const LoadNode& node) {
  const DType type = node.dtype;
  Text text{element(node.buffer, node.indices)};
  if (is_small(type)) text = use_helper("f32_from_" + type.to_string(), {text.text});
  if (type.is_bool()) text = {text.text + " != 0", kEquality};
  if (!node.mask || is_true(node.mask)) return text;
  const std::string zero = type.is_float() ? float_literal(0, type) : int_literal(0, type, dialect_, true);
  const std::string read = text.level > kOr ? "(" + text.text + ")" : text.text;
  return {fmt::format("{} ? {} : {}", expr(node.mask, kOr), read, zero), kTernary};
}

SourcePrinter::Text SourcePrinter::infix(const BinaryNode& node) {
  const auto& [op, text, level, helper] = operator_of(node.op);
  // The right operand of equal level is in parentheses: a - (b - c); float sums keep their order too. Operators of bits
  // and shifts, whose levels few people know, get them around everything.
  const Level left = level == kBits || level == kShift ? kUnary : level == kEquality || level == kOrder ? kSum : level;
  const Level right = level == kAnd || level == kOr ? kEquality : left == level ? static_cast<Level>(level - 1) : left;
  std::string a = expr(node.a, level == kAnd || level == kOr ? static_cast<Level>(kEquality) : left);
  // a && b && c needs none.
  if (const auto* inner = node.a.as<BinaryNode>(); (level == kAnd || level == kOr) && inner && inner->op == node.op)
    a = value(node.a);
  // Of two int literals C would make an int.
  if (is_literal(node.a) && is_literal(node.b) && node.a.dtype() == kI64) a = literal(node.a, dialect_, true);
  return {fmt::format("{} {} {}", a, text, expr(node.b, right)), level};
}

SourcePrinter::Text SourcePrinter::binary(const BinaryNode& node) {
  const DType type = node.a.dtype();
  if (node.op == BinaryOp::kAnd || node.op == BinaryOp::kOr) return infix(node);
  return type.is_float() ? float_binary(node, type) : int_binary(node, type);
}

SourcePrinter::Text SourcePrinter::float_binary(const BinaryNode& node, DType type) {
  switch (node.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
    case BinaryOp::kDiv: {
      const Text text = infix(node);
      return is_small(type) ? use_helper("round_" + type.to_string(), {text.text}) : text;
    }
    case BinaryOp::kOrderedMax:
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      // The first operand is asked whether it is NaN, which of a constant is known.
      const bool swaps = node.op != BinaryOp::kOrderedMax && node.b.as<FloatImmNode>();
      return use_helper(fmt::format("{}_{}", operator_of(node.op).helper, computed(type).to_string()),
                        {value(swaps ? node.b : node.a), value(swaps ? node.a : node.b)});
    }
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      return infix(node);
    default:
      return refused("an integer operation on floats");
  }
}

SourcePrinter::Text SourcePrinter::int_binary(const BinaryNode& node, DType type) {
  // The bits of bools are those of 0 and 1.
  const bool native_unsigned = type.code == TypeCode::kUInt && type.bits >= 32;
  const int64_t* number = as_int(node.b);
  bool native = true;  // the operator means the same
  switch (node.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
      native = native_unsigned || (is_index(node.a) && is_index(node.b));
      break;
    // An unsigned number beside the constant zero makes compilers warn.
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      native = type.code != TypeCode::kUInt || (!is_literal(node.a) && !is_literal(node.b));
      break;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      native = native_unsigned && number && *number >= 0 && *number < type.bits;
      break;
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      native = (native_unsigned && number && *number != 0) || (is_not_negative(node.a) && number && *number > 0);
      break;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      native = false;
      break;
    case BinaryOp::kDiv:
    case BinaryOp::kOrderedMax:
      return refused("a float operation on integers");
    default:
      break;
  }
  if (native) return infix(node);
  return use_helper(fmt::format("{}_{}", operator_of(node.op).helper, type.to_string()),
                    {value(node.a), value(node.b)});
}

SourcePrinter::Text SourcePrinter::cast_text(const CastNode& node) {
  const DType from = node.a.dtype(), to = node.dtype;
  if (from == to) return expr(node.a);
  if (from.code == TypeCode::kHandle || to.code == TypeCode::kHandle) return refused("a cast of a pointer");
  if (to.is_bool()) {
    const std::string zero = from.is_float() ? float_literal(0, computed(from)) : int_literal(0, from, dialect_, false);
    return {expr(node.a, kSum) + " != " + zero, kEquality};
  }
  const auto plain_cast = [&](DType type) {
    return Text{fmt::format("({}){}", dialect_.value_type(type), expr(node.a, kUnary)), kUnary};
  };
  if (to.is_int()) {
    if (from.is_float()) return use_helper(to.to_string() + "_from_" + computed(from).to_string(), {value(node.a)});
    return plain_cast(to);
  }
  if (is_small(to)) {
    const bool wide = from == kF64 || (from.is_int() && from.bits >= 32);
    const std::string arg =
        from.is_float() ? value(node.a) : fmt::format("({}){}", wide ? "double" : "float", expr(node.a, kUnary));
    return use_helper("round_" + to.to_string() + (wide ? "_f64" : ""), {arg});
  }
  if (is_small(from) && to == kF32) return expr(node.a);
  return plain_cast(to);
}

SourcePrinter::Text SourcePrinter::call_text(const CallNode& node) {
  const std::string& name = node.name;
  const DType type = node.dtype;
  if (name == "likely" && node.args.size() == 1) return expr(node.args[0]);
  if (const auto known = dialect_.values.find(name); known != dialect_.values.end() && node.args.empty())
    return {known->second, kEquality};
  std::vector<std::string> args;
  for (const Expr& arg : node.args) args.push_back(value(arg));
  if (const auto known = dialect_.functions.find(name); known != dialect_.functions.end())
    return {fmt::format(fmt::runtime(known->second), fmt::join(args, ", "))};
  const DType of = node.args.empty() ? type : node.args[0].dtype();
  if (name == "bitcast" && args.size() == 1 && of.bits == type.bits && !of.is_bool() && !type.is_bool()) {
    Text bits{args[0]};
    if (of == type) return expr(node.args[0]);
    if (is_small(of))
      bits = use_helper(of.to_string() + "_from_f32", args);
    else if (of.is_float())
      bits = use_helper("bits_of_" + of.to_string(), args);
    if (is_small(type))
      return use_helper("f32_from_" + type.to_string(), {fmt::format("({})({})", dialect_.uint_types[1], bits.text)});
    const std::string unsigned_bits =
        fmt::format("({})({})", dialect_.value_type({TypeCode::kUInt, type.bits, 1}), bits.text);
    if (type.is_float()) return use_helper(type.to_string() + "_of_bits", {unsigned_bits});
    return {fmt::format("({})({})", dialect_.value_type(type), bits.text), kUnary};
  }
  if (name == "isnan" && args.size() == 1 && of.is_float())
    return use_helper("is_nan_" + computed(of).to_string(), args);
  if (((name == "abs" && args.size() == 1) || (name == "pow" && args.size() == 2)) && type.is_int())
    return use_helper(name + "_" + type.to_string(), args);
  static const std::set<std::string, std::less<>> kUnaries = {"exp", "log",   "sqrt", "sin",   "cos",   "tanh",
                                                              "erf", "floor", "ceil", "round", "trunc", "abs"};
  const bool helper_known = name == "sigmoid" || name == "rsqrt";
  const bool known = (args.size() == 1 && (kUnaries.count(name) || helper_known)) ||
                     (name == "pow" && args.size() == 2) || (name == "fma" && args.size() == 3);
  if (!known || !type.is_float()) return refused("no code is known for " + name);
  Text text;
  if (helper_known) {
    text = use_helper(name + "_" + computed(type).to_string(), args);
  } else {
    const auto other = dialect_.math_names.find(name);
    const std::string function =
        (other == dialect_.math_names.end() ? name : other->second) + (type == kF64 ? "" : dialect_.f32_math_suffix);
    names_.reserve(function);
    text = {fmt::format("{}({})", function, fmt::join(args, ", "))};
  }
  return is_small(type) ? use_helper("round_" + type.to_string(), {text.text}) : text;
}

}  // namespace fettle::c_family
