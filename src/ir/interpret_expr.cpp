// Expressions of the interpreter.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "ir/interpret_code.h"
#include "ir/text.h"

namespace fettle::interp {
namespace {

struct ConstantCode : ExprCode {
  Value value;
  explicit ConstantCode(Value v) : value(v) {}
  Value scalar(Frame&) const override { return value; }
};

struct VarCode : ExprCode {
  size_t slot;
  VarCode(int s, int n) : slot(static_cast<size_t>(s)) { lanes = n; }
  Value scalar(Frame& f) const override { return f.vars[slot]; }
  void vector(Frame& f, Value* out) const override { std::copy_n(&f.vars[slot], lanes, out); }
};

// fn of the values of n operands, lane by lane; it gets the frame, too, where it takes one: to fail.
template <class Fn, size_t n>
struct MapCode : ExprCode {
  std::array<ExprPtr, n> args;
  Fn fn;
  MapCode(Fn g, std::array<ExprPtr, n> list) : args(std::move(list)), fn(g) { lanes = args[0]->lanes; }
  Value scalar(Frame& f) const override {
    Value values[n];
    for (size_t k = 0; k < n; ++k) values[k] = args[k]->scalar(f);
    return apply(f, values[0], &values[1], 1);
  }
  void vector(Frame& f, Value* out) const override {
    Lanes others(lanes * static_cast<int>(n - 1));
    args[0]->vector(f, out);
    for (size_t k = 1; k < n; ++k) args[k]->vector(f, others.get() + static_cast<int>(k - 1) * lanes);
    for (int i = 0; i < lanes; ++i) out[i] = apply(f, out[i], others.get() + i, lanes);
  }
  // Those of the other operands are `step` apart.
  Value apply(Frame& f, Value first, const Value* others, int step) const {
    return [&]<size_t... k>(std::index_sequence<k...>) {
      if constexpr (std::is_invocable_v<Fn, Frame&, Value, decltype(others[k])...>)
        return fn(f, first, others[static_cast<int>(k) * step]...);
      else
        return fn(first, others[static_cast<int>(k) * step]...);
    }(std::make_index_sequence<n - 1>());
  }
};
template <class Fn, class... Args>
ExprPtr mapped(Fn fn, Args... args) {
  return std::make_unique<MapCode<Fn, sizeof...(args)>>(fn, std::array<ExprPtr, sizeof...(args)>{std::move(args)...});
}
template <class Fn>
ExprPtr unary(ExprPtr a, Fn fn) {
  return mapped(fn, std::move(a));
}
template <class Fn>
ExprPtr binary(ExprPtr a, ExprPtr b, Fn fn) {
  return mapped(fn, std::move(a), std::move(b));
}

// && and || of scalars look at the right side only where it matters.
struct LogicalCode : ExprCode {
  ExprPtr a, b;
  bool is_and;
  LogicalCode(ExprPtr x, ExprPtr y, bool conjunction) : a(std::move(x)), b(std::move(y)), is_and(conjunction) {
    lanes = a->lanes;
  }
  Value scalar(Frame& f) const override {
    const Value x = a->scalar(f);
    return (x.i != 0) == is_and ? b->scalar(f) : x;
  }
  void vector(Frame& f, Value* out) const override {
    Lanes right(lanes);
    a->vector(f, out);
    b->vector(f, right.get());
    for (int i = 0; i < lanes; ++i) out[i].i = is_and ? out[i].i & right[i].i : out[i].i | right[i].i;
  }
};

struct Division {
  Wrap wrap;
  bool modulo, is_u64;
  Division(DType t, bool mod) : wrap(t), modulo(mod), is_u64(t.element() == kU64) {}
  Value operator()(Frame& f, Value a, Value b) const {
    const int64_t x = a.i, y = b.i;
    if (y == 0) {
      f.machine->fail(ErrorCode::E104, "an integer was divided by zero");
      return of_int(0);
    }
    if (is_u64) {
      const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
      return of_int(static_cast<int64_t>(modulo ? ux % uy : ux / uy));
    }
    if (y == -1) return of_int(modulo ? 0 : wrap(uint64_t{0} - static_cast<uint64_t>(x)));
    return of_int(modulo ? floormod_int(x, y) : floordiv_int(x, y));
  }
};

struct SelectCode : ExprCode {
  ExprPtr condition, if_true, if_false;
  Value scalar(Frame& f) const override { return condition->scalar(f).i ? if_true->scalar(f) : if_false->scalar(f); }
  void vector(Frame& f, Value* out) const override {
    if (condition->lanes == 1) return (condition->scalar(f).i ? if_true : if_false)->vector(f, out);
    Lanes mask(lanes), other(lanes);
    condition->vector(f, mask.get());
    if_true->vector(f, out);
    if_false->vector(f, other.get());
    for (int i = 0; i < lanes; ++i)
      if (!mask[i].i) out[i] = other[i];
  }
};

struct LoadCode : ExprCode {
  Place place;
  explicit LoadCode(Place p) : place(std::move(p)) { lanes = place.lanes; }
  Value scalar(Frame& f) const override {
    if (place.mask && !place.mask->scalar(f).i) return of_int(0);
    const char* p = place.address(f);
    return p ? read(place.storage, p) : of_int(0);
  }
  void vector(Frame& f, Value* out) const override {
    if (lanes == 1) {
      *out = scalar(f);
      return;
    }
    Lanes at(lanes);
    if (!place.addresses(f, at.get())) std::fill_n(at.get(), lanes, of_int(0));
    for (int i = 0; i < lanes; ++i) {
      const char* p = at[i].p;
      out[i] = p ? read(place.storage, p) : of_int(0);  // the bits of 0.0 too
    }
  }
};

struct RampCode : ExprCode {
  ExprPtr base, stride;
  Wrap wrap;
  RampCode(ExprPtr b, ExprPtr s, DType t) : base(std::move(b)), stride(std::move(s)), wrap(t) { lanes = t.lanes; }
  Value scalar(Frame& f) const override { return base->scalar(f); }
  void vector(Frame& f, Value* out) const override {
    const auto b = static_cast<uint64_t>(base->scalar(f).i), s = static_cast<uint64_t>(stride->scalar(f).i);
    for (int i = 0; i < lanes; ++i) out[i].i = wrap(b + s * static_cast<uint64_t>(i));
  }
};

struct BroadcastCode : ExprCode {
  ExprPtr value;
  BroadcastCode(ExprPtr v, int n) : value(std::move(v)) { lanes = n; }
  Value scalar(Frame& f) const override { return value->scalar(f); }
  void vector(Frame& f, Value* out) const override { std::fill_n(out, lanes, value->scalar(f)); }
};

struct ShuffleCode : ExprCode {
  std::vector<ExprPtr> vectors;
  std::vector<int> picks;
  int total = 0;
  Value scalar(Frame& f) const override {
    Value out;
    vector(f, &out);
    return out;
  }
  void vector(Frame& f, Value* out) const override {
    Lanes all(total);
    int at = 0;
    for (const ExprPtr& v : vectors) {
      v->vector(f, all.get() + at);
      at += v->lanes;
    }
    for (int i = 0; i < lanes; ++i) out[i] = all[picks[static_cast<size_t>(i)]];
  }
};

// Where a program reaches something that cannot be run.
struct UnsupportedCode : ExprCode {
  std::string what;
  UnsupportedCode(std::string w, int n) : what(std::move(w)) { lanes = n; }
  Value scalar(Frame& f) const override {
    f.machine->fail(ErrorCode::E104, what);
    return of_int(0);
  }
  void vector(Frame& f, Value* out) const override { std::fill_n(out, lanes, scalar(f)); }
};

template <class Round>
ExprPtr float_binary(BinaryOp op, ExprPtr a, ExprPtr b, Round round) {
  switch (op) {
    case BinaryOp::kAdd:
      return binary(std::move(a), std::move(b), [round](Value x, Value y) { return of_float(round(x.f + y.f)); });
    case BinaryOp::kSub:
      return binary(std::move(a), std::move(b), [round](Value x, Value y) { return of_float(round(x.f - y.f)); });
    case BinaryOp::kMul:
      return binary(std::move(a), std::move(b), [round](Value x, Value y) { return of_float(round(x.f * y.f)); });
    case BinaryOp::kDiv:
      return binary(std::move(a), std::move(b), [round](Value x, Value y) { return of_float(round(x.f / y.f)); });
    case BinaryOp::kMin:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return x.f < y.f || std::isnan(x.f) ? x : y; });
    case BinaryOp::kMax:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return y.f < x.f || std::isnan(x.f) ? x : y; });
    case BinaryOp::kOrderedMax:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return x.f > y.f ? x : y; });
    case BinaryOp::kEq:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.f == y.f); });
    case BinaryOp::kNe:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.f != y.f); });
    case BinaryOp::kLt:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.f < y.f); });
    case BinaryOp::kLe:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.f <= y.f); });
    default:
      return nullptr;
  }
}

// Integers of up to 64 bits; `order` maps a value so that signed comparison is right for the type.
template <class Wrapper>
ExprPtr int_binary(BinaryOp op, ExprPtr a, ExprPtr b, Wrapper wrap, DType type) {
  const auto u = [](Value v) { return static_cast<uint64_t>(v.i); };
  const auto flip = static_cast<int64_t>(type.element() == kU64 ? uint64_t{1} << 63 : 0);
  const int bits = type.bits;
  const bool is_signed = type.code == TypeCode::kInt;
  switch (op) {
    case BinaryOp::kAdd:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int(wrap(u(x) + u(y))); });
    case BinaryOp::kSub:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int(wrap(u(x) - u(y))); });
    case BinaryOp::kMul:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int(wrap(u(x) * u(y))); });
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return binary(std::move(a), std::move(b), Division(type, op == BinaryOp::kFloorMod));
    case BinaryOp::kMin:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return (x.i ^ flip) < (y.i ^ flip) ? x : y; });
    case BinaryOp::kMax:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return (x.i ^ flip) < (y.i ^ flip) ? y : x; });
    case BinaryOp::kEq:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.i == y.i); });
    case BinaryOp::kNe:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.i != y.i); });
    case BinaryOp::kLt:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int((x.i ^ flip) < (y.i ^ flip)); });
    case BinaryOp::kLe:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int((x.i ^ flip) <= (y.i ^ flip)); });
    case BinaryOp::kBitAnd:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.i & y.i); });
    case BinaryOp::kBitOr:
      return binary(std::move(a), std::move(b), [](Value x, Value y) { return of_int(x.i | y.i); });
    case BinaryOp::kBitXor:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) { return of_int(wrap(u(x) ^ u(y))); });
    case BinaryOp::kShl:
      return binary(std::move(a), std::move(b),
                    [=](Value x, Value y) { return of_int(y.i < 0 || y.i >= bits ? 0 : wrap(u(x) << y.i)); });
    case BinaryOp::kShr:
      return binary(std::move(a), std::move(b), [=](Value x, Value y) {
        const bool beyond = y.i < 0 || y.i >= bits;
        if (is_signed) return of_int(x.i >> (beyond ? 63 : y.i));
        return of_int(beyond ? 0 : static_cast<int64_t>(u(x) >> y.i));
      });
    default:
      return nullptr;
  }
}

/// base ^ exponent by squaring.
template <class Wrapper>
int64_t integer_power(int64_t base, int64_t exponent, Wrapper wrap, bool is_signed) {
  const bool inverts = is_signed && exponent < 0;
  if (inverts && base != 1 && base != -1) return 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  // The inverse of 1 and of -1 is itself.
  for (uint64_t left = inverts ? exponent & 1 : static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return wrap(result);
}

struct WrapI64 {
  int64_t operator()(uint64_t x) const { return static_cast<int64_t>(x); }
};

template <class Fn>
ExprPtr float_unary(ExprPtr a, DType type, Fn fn) {
  if (type.bits == 32) return unary(std::move(a), [fn](Value x) { return of_float(static_cast<float>(fn(x.f))); });
  if (type.bits == 64) return unary(std::move(a), [fn](Value x) { return of_float(fn(x.f)); });
  return unary(std::move(a), [fn, round = RoundSmall(type)](Value x) { return of_float(round(fn(x.f))); });
}

ExprPtr cast_code(ExprPtr a, DType from, DType to) {
  if (to.is_bool()) {
    if (from.is_float()) return unary(std::move(a), [](Value x) { return of_int(x.f != 0); });
    return unary(std::move(a), [](Value x) { return of_int(x.i != 0); });
  }
  if (from.is_float() && to.is_float()) {
    if (to.bits >= 64 || (to.bits == 32 && from.bits <= 32)) return a;
    return float_unary(std::move(a), to, [](double x) { return x; });
  }
  if (from.is_float()) {  // truncates and saturates; NaN is zero
    const bool is_unsigned = to.code == TypeCode::kUInt;
    const double low = is_unsigned ? 0 : -std::ldexp(1.0, to.bits - 1);
    const double end = std::ldexp(1.0, is_unsigned ? to.bits : to.bits - 1);
    const int64_t greatest = is_unsigned ? static_cast<int64_t>(~uint64_t{0} >> (64 - to.bits))
                                         : std::numeric_limits<int64_t>::max() >> (64 - to.bits);
    return unary(std::move(a), [=](Value x) {
      if (std::isnan(x.f)) return of_int(0);
      if (x.f >= end) return of_int(greatest);
      if (x.f <= low) return of_int(static_cast<int64_t>(low));
      return of_int(is_unsigned ? static_cast<int64_t>(static_cast<uint64_t>(x.f)) : static_cast<int64_t>(x.f));
    });
  }
  if (to.is_float()) {
    const bool is_u64 = from.element() == kU64;
    if (to.bits == 32)
      return unary(std::move(a), [is_u64](Value x) {
        return of_float(is_u64 ? static_cast<float>(static_cast<uint64_t>(x.i)) : static_cast<float>(x.i));
      });
    return unary(std::move(a), [is_u64, to](Value x) {
      return of_float(
          round_to(is_u64 ? static_cast<double>(static_cast<uint64_t>(x.i)) : static_cast<double>(x.i), to));
    });
  }
  return unary(std::move(a), [wrap = Wrap(to)](Value x) { return of_int(wrap(static_cast<uint64_t>(x.i))); });
}

}  // namespace

ExprPtr Compiler::call(const CallNode& n) {
  const DType type = n.dtype;
  std::vector<ExprPtr> args;
  bool floats = !n.args.empty(), addresses = false;
  for (const Expr& arg : n.args) {
    floats &= arg.dtype().is_float();
    addresses |= arg.kind() == ExprKind::kAddress;
  }
  if (!addresses)
    for (const Expr& arg : n.args) args.push_back(expr(arg));
  const std::string& name = n.name;
  if (args.size() == 1) {
    if (name == "likely") return std::move(args[0]);
    if (name == "abs" && type.is_int())
      return unary(std::move(args[0]), [wrap = Wrap(type)](Value x) {
        return of_int(x.i < 0 && wrap.is_signed ? wrap(uint64_t{0} - static_cast<uint64_t>(x.i)) : x.i);
      });
  }
  if (name == "bitcast" && args.size() == 1 && n.args[0].dtype().bits == type.bits)
    return unary(std::move(args[0]), [from = storage_of(n.args[0].dtype()), to = storage_of(type)](Value x) {
      char bytes[8];
      write(from, bytes, x);
      return read(to, bytes);
    });
  if (args.size() == 1 && floats) {
    if (name == "isnan") return unary(std::move(args[0]), [](Value x) { return of_int(std::isnan(x.f)); });
    ExprPtr& a = args[0];
    if (name == "exp") return float_unary(std::move(a), type, [](double x) { return std::exp(x); });
    if (name == "log") return float_unary(std::move(a), type, [](double x) { return std::log(x); });
    if (name == "sqrt") return float_unary(std::move(a), type, [](double x) { return std::sqrt(x); });
    if (name == "rsqrt") return float_unary(std::move(a), type, [](double x) { return 1 / std::sqrt(x); });
    if (name == "sin") return float_unary(std::move(a), type, [](double x) { return std::sin(x); });
    if (name == "cos") return float_unary(std::move(a), type, [](double x) { return std::cos(x); });
    if (name == "tanh") return float_unary(std::move(a), type, [](double x) { return std::tanh(x); });
    if (name == "erf") return float_unary(std::move(a), type, [](double x) { return std::erf(x); });
    if (name == "sigmoid") return float_unary(std::move(a), type, [](double x) { return 1 / (1 + std::exp(-x)); });
    if (name == "floor") return float_unary(std::move(a), type, [](double x) { return std::floor(x); });
    if (name == "ceil") return float_unary(std::move(a), type, [](double x) { return std::ceil(x); });
    if (name == "round") return float_unary(std::move(a), type, [](double x) { return std::nearbyint(x); });
    if (name == "trunc") return float_unary(std::move(a), type, [](double x) { return std::trunc(x); });
    if (name == "abs") return float_unary(std::move(a), type, [](double x) { return std::fabs(x); });
  }
  if (name == "pow" && args.size() == 2 && type.is_int())
    return binary(std::move(args[0]), std::move(args[1]),
                  [wrap = Wrap(type), is_signed = type.code == TypeCode::kInt](Value x, Value y) {
                    return of_int(integer_power(x.i, y.i, wrap, is_signed));
                  });
  if (name == "pow" && args.size() == 2 && floats)
    return binary(std::move(args[0]), std::move(args[1]),
                  [type](Value x, Value y) { return of_float(round_to(std::pow(x.f, y.f), type)); });
  if (name == "fma" && args.size() == 3 && floats) {
    return mapped(
        [type](Value x, Value y, Value z) {
          if (type.bits != 32) return of_float(round_to(std::fma(x.f, y.f, z.f), type));
          return of_float(std::fma(static_cast<float>(x.f), static_cast<float>(y.f), static_cast<float>(z.f)));
        },
        std::move(args[0]), std::move(args[1]), std::move(args[2]));
  }
  return std::make_unique<UnsupportedCode>(fmt::format("the interpreter knows no function '{}' of {} arguments on {}",
                                                       name, n.args.size(), type.to_string()),
                                           type.lanes);
}

ExprPtr Compiler::expr(const Expr& e) {
  const DType type = e.dtype();
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return std::make_unique<ConstantCode>(of_int(e.as<IntImmNode>()->value));
    case ExprKind::kFloatImm:
      return std::make_unique<ConstantCode>(of_float(round_to(e.as<FloatImmNode>()->value, type)));
    case ExprKind::kVar: {
      const auto found = vars_.find(e.as<VarNode>());
      if (found == vars_.end())
        return std::make_unique<UnsupportedCode>(
            fmt::format("variable '{}' is used where it is not bound", e.as<VarNode>()->name), type.lanes);
      return std::make_unique<VarCode>(found->second, type.lanes);
    }
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      const DType operand = n->a.dtype();
      ExprPtr a = expr(n->a), b = expr(n->b), result;
      if (n->op == BinaryOp::kAnd || n->op == BinaryOp::kOr)
        return std::make_unique<LogicalCode>(std::move(a), std::move(b), n->op == BinaryOp::kAnd);
      if (operand.is_float()) {
        if (operand.bits == 32)
          result = float_binary(n->op, std::move(a), std::move(b), RoundF32());
        else if (operand.bits == 64)
          result = float_binary(n->op, std::move(a), std::move(b), RoundF64());
        else
          result = float_binary(n->op, std::move(a), std::move(b), RoundSmall(operand));
      } else if (operand.element() == kI64) {
        result = int_binary(n->op, std::move(a), std::move(b), WrapI64(), operand);
      } else {
        const DType width = operand.is_bool() ? DType{TypeCode::kUInt, 1, 1} : operand;
        result = int_binary(n->op, std::move(a), std::move(b), Wrap(width), width);
      }
      FETTLE_CHECK_MSG(result, "an operation that does not fit its type: " + to_text(e));
      return result;
    }
    case ExprKind::kNot:
      return unary(expr(e.as<NotNode>()->a), [](Value x) { return of_int(!x.i); });
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      auto code = std::make_unique<SelectCode>();
      code->condition = expr(n->condition);
      code->if_true = expr(n->if_true);
      code->if_false = expr(n->if_false);
      code->lanes = type.lanes;
      return code;
    }
    case ExprKind::kCast: {
      const Expr& a = e.as<CastNode>()->a;
      return cast_code(expr(a), a.dtype(), type);
    }
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      return std::make_unique<LoadCode>(place(n->buffer, n->indices, n->mask));
    }
    case ExprKind::kAddress:
      return std::make_unique<UnsupportedCode>("an address is used outside of a call of a function", type.lanes);
    case ExprKind::kCall:
      return call(*e.as<CallNode>());
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      return std::make_unique<RampCode>(expr(n->base), expr(n->stride), type);
    }
    case ExprKind::kBroadcast:
      return std::make_unique<BroadcastCode>(expr(e.as<BroadcastNode>()->value), type.lanes);
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      auto code = std::make_unique<ShuffleCode>();
      for (const Expr& v : n->vectors) {
        code->vectors.push_back(expr(v));
        code->total += v.dtype().lanes;
      }
      code->picks = n->lanes;
      code->lanes = type.lanes;
      return code;
    }
  }
  FETTLE_UNREACHABLE();
}

void Compiler::add_terms(const Expr& e, int64_t factor, Index& result) {
  if (e.dtype() == kI64 && factor != 0) {
    if (const auto* imm = e.as<IntImmNode>()) {
      result.constant += imm->value * factor;
      return;
    }
    if (const auto* var = e.as<VarNode>()) {
      if (const auto found = vars_.find(var); found != vars_.end()) {
        if (result.first.factor == 0)
          result.first = {found->second, factor};
        else
          result.terms.push_back({found->second, factor});
        return;
      }
    }
    if (const auto* n = e.as<BinaryNode>()) {
      if (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub) {
        add_terms(n->a, factor, result);
        return add_terms(n->b, n->op == BinaryOp::kAdd ? factor : -factor, result);
      }
      if (n->op == BinaryOp::kMul) {
        if (const auto* by = n->b.as<IntImmNode>()) return add_terms(n->a, factor * by->value, result);
        if (const auto* by = n->a.as<IntImmNode>()) return add_terms(n->b, factor * by->value, result);
      }
    }
  }
  if (factor != 0) result.rest.push_back({expr(e), factor});
}

Index Compiler::index(const Expr& e) {
  Index result;
  add_terms(e, 1, result);
  return result;
}

Place Compiler::place(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask) {
  Place result;
  const auto found = buffers_.find(buffer.get());
  FETTLE_CHECK_MSG(found != buffers_.end(), "buffer " + buffer->name + " is not declared where it is accessed");
  result.node = buffer.get();
  result.slot = found->second;
  result.storage = storage_of(buffer->dtype);
  result.element_bytes = buffer->dtype.element_bytes();
  result.flat = indices.size() == 1 && (!in_block || buffer->shape.size() != 1);
  for (const Expr& e : indices) result.lanes = std::max<int>(result.lanes, e.dtype().lanes);
  const auto* run = indices.size() == 1 ? indices[0].as<RampNode>() : nullptr;
  result.contiguous = result.flat && run && is_one(run->stride) && run->base.dtype() == kI64;
  if (result.contiguous) {
    result.indices.push_back(index(run->base));
    if (mask) result.mask = expr(mask);
    return result;
  }
  for (const Expr& e : indices) {
    if (result.lanes == 1)
      result.indices.push_back(index(e));
    else
      result.vectors.push_back(expr(e));
  }
  if (mask) result.mask = expr(mask);
  return result;
}

char* Place::fail_at(Frame& frame, const int64_t* index) const {
  const size_t count = indices.size() + vectors.size();
  frame.machine->fail(ErrorCode::E103, fmt::format("{}[{}] is outside of its shape [{}]", node->name,
                                                   fmt::join(index, index + count, ", "),
                                                   fmt::join(frame.buffers[static_cast<size_t>(slot)].shape, ", ")));
  return nullptr;
}

char* Place::checked(Frame& frame, const int64_t* index) const {
  const BufferSlot& buffer = frame.buffers[static_cast<size_t>(slot)];
  int64_t offset = 0;
  if (flat) {
    offset = index[0];
  } else {
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      if (static_cast<uint64_t>(index[d]) >= static_cast<uint64_t>(buffer.shape[d])) return fail_at(frame, index);
      offset += index[d] * buffer.strides[d];
    }
  }
  // In elements, so that nothing overflows.
  const int64_t before = (buffer.base - buffer.begin) / element_bytes,
                after = (buffer.end - buffer.base) / element_bytes;
  if (offset < -before || offset >= after) return fail_at(frame, index);
  return buffer.base + offset * element_bytes;
}

char* Place::address(Frame& frame) const {
  int64_t index[16];
  FETTLE_CHECK(indices.size() <= 16);
  for (size_t d = 0; d < indices.size(); ++d) index[d] = indices[d].eval(frame);
  return checked(frame, index);
}

bool Place::addresses(Frame& frame, Value* out) const {
  if (contiguous && !mask) {
    int64_t index = indices[0].eval(frame);
    char* const start = checked(frame, &index);
    index += lanes - 1;
    if (!start || !checked(frame, &index)) return false;
    for (int lane = 0; lane < lanes; ++lane) out[lane].p = start + lane * element_bytes;
    return true;
  }
  Lanes on(lanes);
  if (mask) mask->vector(frame, on.get());
  if (contiguous) {
    const int64_t base = indices[0].eval(frame);
    for (int lane = 0; lane < lanes; ++lane) {
      const int64_t index = base + lane;
      out[lane].p = on[lane].i ? checked(frame, &index) : nullptr;
      if (on[lane].i && !out[lane].p) return false;
    }
    return true;
  }
  std::vector<Value> values(vectors.size() * static_cast<size_t>(lanes));
  for (size_t d = 0; d < vectors.size(); ++d) {
    Value* at = &values[d * static_cast<size_t>(lanes)];
    vectors[d]->vector(frame, at);
    if (vectors[d]->lanes == 1) std::fill_n(at, lanes, *at);
  }
  int64_t index[16];
  FETTLE_CHECK(vectors.size() <= 16);
  for (int lane = 0; lane < lanes; ++lane) {
    out[lane].p = nullptr;
    if (mask && !on[lane].i) continue;
    for (size_t d = 0; d < vectors.size(); ++d)
      index[d] = values[d * static_cast<size_t>(lanes) + static_cast<size_t>(lane)].i;
    out[lane].p = checked(frame, index);
    if (!out[lane].p) return false;
  }
  return true;
}

}  // namespace fettle::interp
