#include "ir/expr.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "ir/buffer.h"
#include "ir/int_arithmetic.h"
#include "ir/query.h"

namespace fettle {

int64_t floordiv_int(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

int64_t floormod_int(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

Expr::Expr(int64_t value) : Ref(int_imm(value)) {}

namespace {

// The constants that programs are full of, once a thread.
class SmallInts {
 public:
  static constexpr int64_t kLeast = -1, kMost = 64;
  SmallInts() {
    for (int64_t value = kLeast; value <= kMost; ++value)
      values_[static_cast<size_t>(value - kLeast)] = make_ref<const IntImmNode>(value, kI64);
  }
  const Expr& of(int64_t value) const { return values_[static_cast<size_t>(value - kLeast)]; }

 private:
  std::array<Expr, kMost - kLeast + 1> values_;
};

}  // namespace

Expr int_imm(int64_t value, DType dtype) {
  FETTLE_CHECK(dtype.is_int() || dtype.is_bool());
  if (dtype == kI64 && value >= SmallInts::kLeast && value <= SmallInts::kMost) {
    thread_local const SmallInts small;
    return small.of(value);
  }
  return Expr(make_ref<const IntImmNode>(value, dtype));
}

Expr float_imm(double value, DType dtype) {
  FETTLE_CHECK(dtype.is_float());
  if (dtype.bits == 32) value = static_cast<float>(value);
  return Expr(make_ref<const FloatImmNode>(value, dtype));
}

Expr bool_imm(bool value) { return int_imm(value ? 1 : 0, kBool); }

Expr lowest(DType type) {
  if (type.is_float()) return float_imm(-std::numeric_limits<double>::infinity(), type);
  if (type.is_bool() || type.code == TypeCode::kUInt) return int_imm(0, type);
  return int_imm(std::numeric_limits<int64_t>::min() >> (64 - type.bits), type);
}

Expr highest(DType type) {
  if (type.is_float()) return float_imm(std::numeric_limits<double>::infinity(), type);
  if (type.code == TypeCode::kUInt) return int_imm(static_cast<int64_t>(~uint64_t{0} >> (64 - type.bits)), type);
  return int_imm(type.is_bool() ? 1 : ~*as_int(lowest(type)), type);
}

Expr constant(double value, DType dtype) {
  if (dtype.lanes > 1) return broadcast(constant(value, dtype.element()), dtype.lanes);
  if (dtype.is_float()) return float_imm(value, dtype);
  return int_imm(static_cast<int64_t>(value), dtype);
}

Var make_var(std::string name, DType dtype) { return make_ref<const VarNode>(std::move(name), dtype); }

const int64_t* as_int_of_broadcast(const BroadcastNode& spread) { return as_int(spread.value); }

bool is_true(const Expr& e) { return !e || (e.dtype().is_bool() && is_int(e, 1)); }

bool is_const_zero(const Expr& e) {
  if (const auto* spread = e.as<BroadcastNode>()) return is_const_zero(spread->value);
  if (const auto* f = e.as<FloatImmNode>()) return f->value == 0 && !std::signbit(f->value);
  return is_int(e, 0);
}

namespace {

bool is_comparison(BinaryOp op) {
  return op == BinaryOp::kEq || op == BinaryOp::kNe || op == BinaryOp::kLt || op == BinaryOp::kLe;
}

// Folds an operation on integer constants; null where it has no value (division by zero).
Expr fold(BinaryOp op, int64_t x, int64_t y, DType operand, DType result) {
  const bool divides = op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod;
  const bool shifts = op == BinaryOp::kShl || op == BinaryOp::kShr;  // left to the machine
  if ((divides && y == 0) || shifts || op == BinaryOp::kDiv) return nullptr;
  return int_imm(binary_int(op, x, y, operand), result);
}

}  // namespace

Expr binary(BinaryOp op, Expr a, Expr b) {
  FETTLE_CHECK(a && b);
  if (a.dtype() != b.dtype()) {  // an integer literal takes the other operand's type
    const auto adapt = [](Expr& literal, const Expr& other) {
      const auto* imm = literal.as<IntImmNode>();
      if (!imm || imm->dtype != kI64) return false;
      literal = constant(static_cast<double>(imm->value), other.dtype());
      return true;
    };
    const bool adapted = adapt(b, a) || adapt(a, b);
    FETTLE_CHECK_MSG(adapted, "operands differ in type: " + a.dtype().to_string() + ", " + b.dtype().to_string());
  }
  const DType operand = a.dtype();
  if (op == BinaryOp::kOrderedMax && !operand.is_float()) op = BinaryOp::kMax;
  const DType result = is_comparison(op) ? kBool.with_lanes(operand.lanes) : operand;
  if (operand.is_int() || operand.is_bool()) {
    const auto* x = a.as<IntImmNode>();
    const auto* y = b.as<IntImmNode>();
    // u64 beyond i64's range is not folded: comparisons would be wrong.
    if (x && y && !(operand == kU64 && (x->value < 0 || y->value < 0)))
      if (Expr folded = fold(op, x->value, y->value, operand, result)) return folded;
    switch (op) {
      case BinaryOp::kAdd:
        if (is_zero(a)) return b;
        if (is_zero(b)) return a;
        break;
      case BinaryOp::kSub:
        if (is_zero(b)) return a;
        break;
      case BinaryOp::kMul:
        if (is_one(a) || is_zero(b)) return b;
        if (is_one(b) || is_zero(a)) return a;
        break;
      case BinaryOp::kFloorDiv:
        if (is_one(b)) return a;
        break;
      case BinaryOp::kFloorMod:
        if (is_one(b)) return constant(0, operand);
        break;
      default:
        break;
    }
  }
  return Expr(make_ref<const BinaryNode>(op, std::move(a), std::move(b), result));
}

Expr accumulated(BinaryOp op, Expr state, Expr term) {
  if (op == BinaryOp::kOrderedMax) std::swap(state, term);
  return binary(op, std::move(state), std::move(term));
}

Expr logical_not(Expr a) {
  if (const auto* imm = a.as<IntImmNode>()) return bool_imm(!imm->value);
  if (const auto* inner = a.as<NotNode>()) return inner->a;
  return Expr(make_ref<const NotNode>(std::move(a)));
}

Expr logical_and(Expr a, Expr b) {
  if (is_true(a)) return b ? b : bool_imm(true);
  if (is_true(b)) return a;
  if (is_zero(a)) return a;
  if (is_zero(b)) return b;
  return binary(BinaryOp::kAnd, std::move(a), std::move(b));
}

Expr logical_or(Expr a, Expr b) {
  if (is_zero(a)) return b;
  if (is_zero(b)) return a;
  if (is_true(a)) return a;
  if (is_true(b)) return b;
  return binary(BinaryOp::kOr, std::move(a), std::move(b));
}

Expr select(Expr condition, Expr if_true, Expr if_false) {
  if (if_true.dtype() != if_false.dtype()) {
    if (if_false.as<IntImmNode>())
      if_false = constant(static_cast<double>(*as_int(if_false)), if_true.dtype());
    else if (if_true.as<IntImmNode>())
      if_true = constant(static_cast<double>(*as_int(if_true)), if_false.dtype());
  }
  FETTLE_CHECK(if_true.dtype() == if_false.dtype());
  if (const int64_t* c = as_int(condition)) return *c ? if_true : if_false;
  return Expr(make_ref<const SelectNode>(std::move(condition), std::move(if_true), std::move(if_false)));
}

Expr cast(DType dtype, Expr a) {
  if (a.dtype() == dtype) return a;
  if (const auto* imm = a.as<IntImmNode>(); imm && dtype.lanes == 1) {
    if (dtype.is_int()) return int_imm(wrapped_int(static_cast<uint64_t>(imm->value), dtype), dtype);
    if (dtype == kF32 || dtype == kF64) return float_imm(static_cast<double>(imm->value), dtype);
  }
  return Expr(make_ref<const CastNode>(std::move(a), dtype));
}

Expr load(Buffer buffer, std::vector<Expr> indices, Expr mask) {
  int lanes = 1;
  for (const Expr& index : indices) lanes = std::max<int>(lanes, index.dtype().lanes);
  const DType type = buffer->dtype.with_lanes(lanes);
  return Expr(make_ref<const LoadNode>(std::move(buffer), std::move(indices), std::move(mask), type));
}

Expr address_of(Buffer buffer, std::vector<Expr> indices) {
  return Expr(make_ref<const AddressNode>(std::move(buffer), std::move(indices)));
}

Expr call(std::string name, std::vector<Expr> args, DType dtype) {
  return Expr(make_ref<const CallNode>(std::move(name), std::move(args), dtype));
}

Expr math(std::string name, std::vector<Expr> args) {
  FETTLE_CHECK(!args.empty());
  const DType type = args.front().dtype();
  return call(std::move(name), std::move(args), type);
}

Expr ramp(Expr base, Expr stride, int lanes) {
  if (lanes == 1) return base;
  return Expr(make_ref<const RampNode>(std::move(base), std::move(stride), lanes));
}

Expr broadcast(Expr value, int lanes) {
  if (lanes == 1) return value;
  FETTLE_CHECK(value.dtype().lanes == 1);
  return Expr(make_ref<const BroadcastNode>(std::move(value), lanes));
}

Expr shuffle(std::vector<Expr> vectors, std::vector<int> lanes) {
  return Expr(make_ref<const ShuffleNode>(std::move(vectors), std::move(lanes)));
}

}  // namespace fettle
