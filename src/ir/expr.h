#pragma once
// Expressions of the loop language: immutable nodes without parent pointers, compared by identity or by
// structural_equal (compare.h). Indices and loop variables are i64.

#include <cstdint>
#include <string>
#include <vector>

#include "base/ref.h"
#include "ir/type.h"

namespace fettle {

enum class ExprKind : uint8_t {
  kIntImm,  // also bool constants
  kFloatImm,
  kVar,
  kBinary,
  kNot,
  kSelect,
  kCast,
  kLoad,
  kAddress,  // pointer to an element, as an argument of a call
  kCall,     // math function or machine intrinsic, by name
  kRamp,     // base, base + stride, … (lowered code only, as the next two)
  kBroadcast,
  kShuffle,
};

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,  // floats only
  kFloorDiv,
  kFloorMod,  // integers, rounding towards minus infinity
  kMin,
  kMax,  // of floats: NaN where either operand is; zeros of either sign are equal
  kEq,
  kNe,
  kLt,
  kLe,  // bool results; > and >= are written with swapped operands
  kAnd,
  kOr,  // bools
  kBitAnd,
  kBitOr,
  kBitXor,
  kShl,
  kShr,
  /// Floats only: a > b ? a : b, so b where either is NaN. Of integers max, which is what `binary` makes of it.
  kOrderedMax,
};

struct ExprNode : RefCounted {
  ExprKind kind;
  DType dtype;
  /// Structural hash (free variables and buffers by address), computed once on demand: see hash.h. 0 = not yet.
  mutable uint64_t cached_hash = 0;

 protected:
  ExprNode(ExprKind k, DType t) : kind(k), dtype(t) {}
};

/// A reference to an expression; integers convert to i64 constants.
class Expr : public Ref<const ExprNode> {
 public:
  using Ref<const ExprNode>::Ref;
  Expr() = default;
  Expr(Ref<const ExprNode> ref) : Ref(std::move(ref)) {}
  template <class T>
    requires std::is_base_of_v<ExprNode, T>
  Expr(const Ref<const T>& ref) : Ref(ref) {}
  Expr(int64_t value);
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}

  DType dtype() const { return get()->dtype; }
  ExprKind kind() const { return get()->kind; }
  /// The node as a T, or null if it is of another kind: `if (const auto* load = e.as<LoadNode>())`.
  template <class T>
  const T* as() const {
    return get() && get()->kind == T::kKind ? static_cast<const T*>(get()) : nullptr;
  }
};

struct BufferNode;
using Buffer = Ref<const BufferNode>;
struct VarNode;

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::Expr);
FETTLE_VECTORS_FROM_POOL(const fettle::ExprNode*);
FETTLE_VECTORS_FROM_POOL(const fettle::VarNode*);
FETTLE_VECTORS_FROM_POOL(const fettle::BufferNode*);

namespace fettle {

struct IntImmNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kIntImm;
  int64_t value;
  IntImmNode(int64_t v, DType t) : ExprNode(kKind, t), value(v) {}
};

struct FloatImmNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kFloatImm;
  double value;
  FloatImmNode(double v, DType t) : ExprNode(kKind, t), value(v) {}
};

/// A variable is its node: two variables of one name are different. Each is bound at one place in a program.
struct VarNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kVar;
  std::string name;
  VarNode(std::string n, DType t) : ExprNode(kKind, t), name(std::move(n)) {}
};
using Var = Ref<const VarNode>;

struct BinaryNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBinary;
  BinaryOp op;
  Expr a, b;
  BinaryNode(BinaryOp o, Expr x, Expr y, DType t) : ExprNode(kKind, t), op(o), a(std::move(x)), b(std::move(y)) {}
};

struct NotNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kNot;
  Expr a;
  explicit NotNode(Expr x) : ExprNode(kKind, x.dtype()), a(std::move(x)) {}
};

/// condition ? if_true : if_false; only the chosen side is evaluated where lanes is 1.
struct SelectNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kSelect;
  Expr condition, if_true, if_false;
  SelectNode(Expr c, Expr t, Expr f)
      : ExprNode(kKind, t.dtype()), condition(std::move(c)), if_true(std::move(t)), if_false(std::move(f)) {}
};

/// Value conversion; float to int truncates and saturates, int to narrower int wraps.
struct CastNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCast;
  Expr a;
  CastNode(Expr x, DType t) : ExprNode(kKind, t), a(std::move(x)) {}
};

/// buffer[indices]. Lowered code: one flat index (elements), perhaps a vector, and perhaps a mask (bool lanes;
/// lanes that are off read zero and touch no memory).
struct LoadNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kLoad;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr mask;  // null: none
  LoadNode(Buffer b, std::vector<Expr> i, Expr m, DType t)
      : ExprNode(kKind, t), buffer(std::move(b)), indices(std::move(i)), mask(std::move(m)) {}
};

/// &buffer[indices]
struct AddressNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kAddress;
  Buffer buffer;
  std::vector<Expr> indices;
  AddressNode(Buffer b, std::vector<Expr> i) : ExprNode(kKind, kHandle), buffer(std::move(b)), indices(std::move(i)) {}
};

/// A pure function by name: the math functions below, or a machine intrinsic ("llvm.x86.…") in the
/// implementation of a tensor intrinsic.
/// Math (elementwise on lanes): exp log sqrt rsqrt sin cos tanh erf sigmoid pow (of integers: products, which wrap)
/// floor ceil round (half to even) trunc abs fma isnan bitcast (the same bits as another type of the same width).
/// `likely(b)` marks a condition that is nearly always true.
struct CallNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCall;
  std::string name;
  std::vector<Expr> args;
  CallNode(std::string n, std::vector<Expr> a, DType t) : ExprNode(kKind, t), name(std::move(n)), args(std::move(a)) {}
};

/// lanes values base + i*stride.
struct RampNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kRamp;
  Expr base, stride;
  RampNode(Expr b, Expr s, int lanes)
      : ExprNode(kKind, b.dtype().with_lanes(lanes)), base(std::move(b)), stride(std::move(s)) {}
};

struct BroadcastNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBroadcast;
  Expr value;
  BroadcastNode(Expr v, int lanes) : ExprNode(kKind, v.dtype().with_lanes(lanes)), value(std::move(v)) {}
};

/// Lane i of the result is lane lanes[i] of the concatenation of `vectors`. One lane gives a scalar.
struct ShuffleNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kShuffle;
  std::vector<Expr> vectors;
  std::vector<int> lanes;
  ShuffleNode(std::vector<Expr> v, std::vector<int> l)
      : ExprNode(kKind, v.front().dtype().with_lanes(static_cast<int>(l.size()))),
        vectors(std::move(v)),
        lanes(std::move(l)) {}
};

// --- construction ---------------------------------------------------------------------------------------------
// Integer arithmetic on constants is folded, and x+0, x*1, x*0, x/1 are dropped; everything else is arith's work.
// Operands must be of one type (a scalar is not broadcast); an integer literal takes the other operand's type.

Expr int_imm(int64_t value, DType dtype = kI64);
Expr float_imm(double value, DType dtype = kF32);
Expr bool_imm(bool value);
/// The constant `value` of any element type; with lanes, its broadcast.
Expr constant(double value, DType dtype);
Var make_var(std::string name, DType dtype = kI64);
Expr binary(BinaryOp op, Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr condition, Expr if_true, Expr if_false);
Expr cast(DType dtype, Expr a);
Expr load(Buffer buffer, std::vector<Expr> indices, Expr mask = nullptr);
Expr address_of(Buffer buffer, std::vector<Expr> indices);
Expr call(std::string name, std::vector<Expr> args, DType dtype);
/// Math function on args of one type, which is also the result's.
Expr math(std::string name, std::vector<Expr> args);
Expr ramp(Expr base, Expr stride, int lanes);
Expr broadcast(Expr value, int lanes);
Expr shuffle(std::vector<Expr> vectors, std::vector<int> lanes);

inline Expr operator+(Expr a, Expr b) { return binary(BinaryOp::kAdd, std::move(a), std::move(b)); }
inline Expr operator-(Expr a, Expr b) { return binary(BinaryOp::kSub, std::move(a), std::move(b)); }
inline Expr operator*(Expr a, Expr b) { return binary(BinaryOp::kMul, std::move(a), std::move(b)); }
/// Float division; for integers use floordiv.
inline Expr operator/(Expr a, Expr b) { return binary(BinaryOp::kDiv, std::move(a), std::move(b)); }
inline Expr floordiv(Expr a, Expr b) { return binary(BinaryOp::kFloorDiv, std::move(a), std::move(b)); }
inline Expr floormod(Expr a, Expr b) { return binary(BinaryOp::kFloorMod, std::move(a), std::move(b)); }
inline Expr min(Expr a, Expr b) { return binary(BinaryOp::kMin, std::move(a), std::move(b)); }
inline Expr max(Expr a, Expr b) { return binary(BinaryOp::kMax, std::move(a), std::move(b)); }
inline Expr ordered_max(Expr a, Expr b) { return binary(BinaryOp::kOrderedMax, std::move(a), std::move(b)); }
inline Expr eq(Expr a, Expr b) { return binary(BinaryOp::kEq, std::move(a), std::move(b)); }
inline Expr ne(Expr a, Expr b) { return binary(BinaryOp::kNe, std::move(a), std::move(b)); }
inline Expr lt(Expr a, Expr b) { return binary(BinaryOp::kLt, std::move(a), std::move(b)); }
inline Expr le(Expr a, Expr b) { return binary(BinaryOp::kLe, std::move(a), std::move(b)); }
inline Expr gt(Expr a, Expr b) { return lt(std::move(b), std::move(a)); }
inline Expr ge(Expr a, Expr b) { return le(std::move(b), std::move(a)); }
/// state op term. ordered_max(term, state): a state that begins as a number stays one, whichever terms are NaN.
Expr accumulated(BinaryOp op, Expr state, Expr term);
inline bool is_maximum(BinaryOp op) { return op == BinaryOp::kMax || op == BinaryOp::kOrderedMax; }
/// Conjunction; a null operand counts as true, and constants are folded.
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);

/// The value of an integer (or bool) constant, also when broadcast.
const int64_t* as_int_of_broadcast(const BroadcastNode& spread);
inline const int64_t* as_int(const Expr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return &imm->value;
  if (const auto* spread = e.as<BroadcastNode>()) return as_int_of_broadcast(*spread);
  return nullptr;
}
inline bool is_int(const Expr& e, int64_t value) {
  const int64_t* v = as_int(e);
  return v && *v == value;
}
inline bool is_zero(const Expr& e) { return is_int(e, 0); }
inline bool is_one(const Expr& e) { return is_int(e, 1); }
/// True for a null expression or the constant true.
bool is_true(const Expr& e);
/// True for a constant zero of any type, also when broadcast.
bool is_const_zero(const Expr& e);

/// Floor division and remainder of integers, as the language defines them; b != 0.
int64_t floordiv_int(int64_t a, int64_t b);
int64_t floormod_int(int64_t a, int64_t b);

}  // namespace fettle

// LoadNode and AddressNode own references to buffers, whose type must be complete where they are used.
#include "ir/buffer.h"  // IWYU pragma: export
