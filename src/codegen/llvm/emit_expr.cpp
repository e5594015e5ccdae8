// Expressions: arithmetic, comparisons, selections, casts. What they mean is the interpreter's (ir/interpret.h).
#include <fmt/format.h>
#include <llvm/Analysis/ValueTracking.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/llvm/function_emitter.h"
#include "ir/rewrite.h"

namespace fettle::llvm_backend {

using namespace llvm;

namespace {

bool is_bf16(DType type) { return type.code == TypeCode::kBFloat; }

/// What an operator is of floats, of signed and of unsigned integers; 0: nothing.
struct Operation {
  BinaryOp op;
  unsigned of_floats, of_signed, of_unsigned;
};
constexpr Operation kArithmetic[] = {
    {BinaryOp::kAdd, Instruction::FAdd, Instruction::Add, Instruction::Add},
    {BinaryOp::kSub, Instruction::FSub, Instruction::Sub, Instruction::Sub},
    {BinaryOp::kMul, Instruction::FMul, Instruction::Mul, Instruction::Mul},
    {BinaryOp::kDiv, Instruction::FDiv, 0, 0},
    {BinaryOp::kAnd, 0, Instruction::And, Instruction::And},
    {BinaryOp::kBitAnd, 0, Instruction::And, Instruction::And},
    {BinaryOp::kOr, 0, Instruction::Or, Instruction::Or},
    {BinaryOp::kBitOr, 0, Instruction::Or, Instruction::Or},
    {BinaryOp::kBitXor, 0, Instruction::Xor, Instruction::Xor},
    {BinaryOp::kShl, 0, Instruction::Shl, Instruction::Shl},
    {BinaryOp::kShr, 0, Instruction::AShr, Instruction::LShr},
};
constexpr Operation kComparisons[] = {
    {BinaryOp::kEq, CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ},
    {BinaryOp::kNe, CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE},
    {BinaryOp::kLt, CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT},
    {BinaryOp::kLe, CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE},
};
constexpr Operation kExtremes[] = {
    {BinaryOp::kMin, 0, Intrinsic::smin, Intrinsic::umin},
    {BinaryOp::kMax, 0, Intrinsic::smax, Intrinsic::umax},
};

unsigned find(std::span<const Operation> operations, BinaryOp op, DType type) {
  for (const Operation& known : operations)
    if (known.op == op)
      return type.is_float() ? known.of_floats : type.code == TypeCode::kInt ? known.of_signed : known.of_unsigned;
  return 0;
}

}  // namespace

// --- types ---

Type* FunctionEmitter::memory_type_of(DType type) const {
  LLVMContext& c = vb_.context();
  Type* element = nullptr;
  switch (type.code) {
    case TypeCode::kInt:
    case TypeCode::kUInt:
      element = Type::getIntNTy(c, type.bits);
      break;
    case TypeCode::kBool:
      element = Type::getInt8Ty(c);
      break;
    case TypeCode::kBFloat:
      element = Type::getInt16Ty(c);
      break;
    case TypeCode::kHandle:
      element = PointerType::get(c, 0);
      break;
    default:
      element = type.bits == 64 ? Type::getDoubleTy(c) : type.bits == 16 ? Type::getHalfTy(c) : Type::getFloatTy(c);
      break;
  }
  return type.lanes == 1 ? element : FixedVectorType::get(element, type.lanes);
}

Type* FunctionEmitter::type_of(DType type) const {
  if (!type.is_bool()) return memory_type_of(type);
  Type* bit = Type::getInt1Ty(vb_.context());
  return type.lanes == 1 ? bit : FixedVectorType::get(bit, type.lanes);
}

Constant* FunctionEmitter::int_constant(DType type, int64_t value) const {
  return ConstantInt::get(type_of(type), static_cast<uint64_t>(value), true);
}

// --- dispatch ---

Value* FunctionEmitter::emit(const Expr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return int_constant(e.dtype(), imm->value);
  if (const auto* var = e.as<VarNode>()) {
    const auto found = vars_.find(var);
    if (found != vars_.end()) return found->second;
    return fail(ErrorCode::E301, "variable " + var->name + " is not bound", type_of(e.dtype()));
  }
  if (const auto found = memo_.find(e.get()); found != memo_.end()) return found->second.value;
  Value* value = emit_uncached(e);
  memo_[e.get()] = {e, value};
  return value;
}

Value* FunctionEmitter::emit_uncached(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::kFloatImm: {
      const double value = e.as<FloatImmNode>()->value;
      if (!is_bf16(e.dtype())) return ConstantFP::get(type_of(e.dtype()), value);
      return narrow(ConstantFP::get(Type::getFloatTy(vb_.context()), value), e.dtype());
    }
    case ExprKind::kBinary:
      return emit_binary(*e.as<BinaryNode>());
    case ExprKind::kNot: {
      Value* a = emit(e.as<NotNode>()->a);
      return vb_.binary(Instruction::Xor, a, Constant::getAllOnesValue(a->getType()));
    }
    case ExprKind::kSelect: {
      const auto* node = e.as<SelectNode>();
      return emit_select(node->condition, node->if_true, node->if_false);
    }
    case ExprKind::kCast:
      return emit_cast(*e.as<CastNode>());
    case ExprKind::kLoad:
      return emit_load(*e.as<LoadNode>());
    case ExprKind::kAddress: {
      const auto* node = e.as<AddressNode>();
      if (node->indices.size() != 1) return fail(ErrorCode::E301, "an address is not flat", type_of(kHandle));
      return address(node->buffer.get(), node->indices[0]);
    }
    case ExprKind::kCall:
      return emit_math(*e.as<CallNode>());
    case ExprKind::kRamp: {
      const auto* node = e.as<RampNode>();
      const int lanes = e.dtype().lanes;
      Type* element = type_of(e.dtype().element());
      llvm::SmallVector<Constant*, 64> numbers;
      for (int i = 0; i < lanes; ++i) numbers.push_back(ConstantInt::get(element, static_cast<uint64_t>(i)));
      Value* steps = vb_.binary(Instruction::Mul, ConstantVector::get(numbers), vb_.splat(emit(node->stride), lanes));
      // Ramps a constant apart share what is put in all lanes.
      IndexForm form = e.dtype().element() == kI64 ? forms_.form(node->base) : IndexForm{};
      if (form.constant == 0 || form.is_constant())
        return vb_.binary(Instruction::Add, vb_.splat(emit(node->base), lanes), steps);
      steps = vb_.binary(Instruction::Add, steps, vb_.splat(int_constant(kI64, form.constant), lanes));
      form.constant = 0;
      return vb_.binary(Instruction::Add, vb_.splat(bytes_of(form, 1), lanes), steps);
    }
    case ExprKind::kBroadcast:
      return vb_.splat(emit(e.as<BroadcastNode>()->value), e.dtype().lanes);
    case ExprKind::kShuffle: {
      const auto* node = e.as<ShuffleNode>();
      const int width = node->vectors[0].dtype().lanes;
      if (node->lanes.size() == 1) {
        Value* from = emit(node->vectors[static_cast<size_t>(node->lanes[0] / width)]);
        return width == 1 ? from : vb_.extract(from, node->lanes[0] % width);
      }
      if (width == 1) {
        Value* out = PoisonValue::get(type_of(e.dtype()));
        for (size_t i = 0; i < node->lanes.size(); ++i)
          out = vb_.insert(out, emit(node->vectors[static_cast<size_t>(node->lanes[i])]), static_cast<int>(i));
        return out;
      }
      if (node->vectors.size() <= 2) {
        Value* a = emit(node->vectors[0]);
        Value* b = node->vectors.size() == 2 ? emit(node->vectors[1]) : PoisonValue::get(a->getType());
        return vb_.shuffle(a, b, node->lanes);
      }
      // Joined pairwise; the last is doubled as often as that takes.
      llvm::SmallVector<Value*, 16> parts;
      for (const Expr& vector : node->vectors) parts.push_back(emit(vector));
      int lanes = width;
      while (parts.size() > 1) {
        llvm::SmallVector<int, 64> all(static_cast<size_t>(2 * lanes));
        for (int i = 0; i < 2 * lanes; ++i) all[static_cast<size_t>(i)] = i;
        llvm::SmallVector<Value*, 16> joined;
        for (size_t i = 0; i < parts.size(); i += 2)
          joined.push_back(vb_.shuffle(parts[i], i + 1 < parts.size() ? parts[i + 1] : parts[i], all));
        parts = joined;
        lanes *= 2;
      }
      return vb_.shuffle(parts[0], PoisonValue::get(parts[0]->getType()), node->lanes);
    }
    default:
      return fail(ErrorCode::E301, "an expression of unknown kind", type_of(e.dtype()));
  }
}

// --- arithmetic ---

/// bf16 values are held as their 16 bits and computed with as f32.
Value* FunctionEmitter::widen(Value* value, DType type) {
  if (!is_bf16(type)) return value;
  Type* i32 = type_of(kI32.with_lanes(type.lanes));
  Value* bits = vb_.binary(Instruction::Shl, vb_.cast(Instruction::ZExt, value, i32), ConstantInt::get(i32, 16));
  return vb_.cast(Instruction::BitCast, bits, type_of(kF32.with_lanes(type.lanes)));
}

/// f32 → bf16, to nearest even; NaNs stay NaNs.
Value* FunctionEmitter::narrow(Value* value, DType type) {
  if (!is_bf16(type)) return value;
  Type* i32 = type_of(kI32.with_lanes(type.lanes));
  Value* bits = vb_.cast(Instruction::BitCast, value, i32);
  Value* high = vb_.binary(Instruction::LShr, bits, ConstantInt::get(i32, 16));
  Value* odd = vb_.binary(Instruction::And, high, ConstantInt::get(i32, 1));
  Value* rounded = vb_.binary(Instruction::Add, vb_.binary(Instruction::Add, bits, ConstantInt::get(i32, 0x7fff)), odd);
  Value* quiet = vb_.binary(Instruction::Or, bits, ConstantInt::get(i32, 0x400000));
  Value* is_nan = vb_.compare(CmpInst::FCMP_UNO, value, value);
  Value* wide = vb_.select(is_nan, quiet, rounded);
  if (!type.is_vector())
    return vb_.cast(Instruction::Trunc, vb_.binary(Instruction::LShr, wide, ConstantInt::get(i32, 16)), type_of(type));
  // The high halves, by one instruction for two vectors.
  Value* halves = vb_.cast(Instruction::BitCast, wide, type_of(kU16.with_lanes(2 * type.lanes)));
  std::vector<int> odd_lanes(static_cast<size_t>(type.lanes));
  for (int i = 0; i < type.lanes; ++i) odd_lanes[static_cast<size_t>(i)] = 2 * i + 1;
  return vb_.shuffle(halves, PoisonValue::get(halves->getType()), odd_lanes);
}

/// a*b + c, a*b - c and c - a*b in one rounding; null if `node` is none of these.
Value* FunctionEmitter::emit_contracted(const BinaryNode& node) {
  const DType type = node.dtype;
  if (!contract_ || type.code != TypeCode::kFloat || type.bits < 32) return nullptr;
  if (node.op != BinaryOp::kAdd && node.op != BinaryOp::kSub) return nullptr;
  const auto product = [](const Expr& e) {
    const auto* binary = e.as<BinaryNode>();
    return binary && binary->op == BinaryOp::kMul ? binary : nullptr;
  };
  const auto negated = [&](Value* v) { return vb_.pure(UnaryOperator::CreateFNeg(v)); };
  const bool subtract = node.op == BinaryOp::kSub;
  const auto fma = [&](Value* a, Value* b, Value* c) {
    return vb_.intrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
  };
  if (const auto* right = product(node.b)) {
    Value* c = emit(node.a);
    Value* a = emit(right->a);
    return fma(subtract ? negated(a) : a, emit(right->b), c);
  }
  if (const auto* left = product(node.a)) {
    Value* c = emit(node.b);
    Value* a = emit(left->a);
    return fma(a, emit(left->b), subtract ? negated(c) : c);
  }
  return nullptr;
}

// Comparisons, minima and maxima of vectors of halves: in single precision, which is exact. LLVM would do them lane by
// lane on x86, and sees through the conversions but for the fence.
Value* FunctionEmitter::emit_half_comparison(BinaryOp op, Value* a, Value* b, DType type, bool waits) {
  const DType wide = kF32.with_lanes(type.lanes);
  const auto widened = [&](Value* x) {
    x = vb_.cast(Instruction::FPExt, x, type_of(wide));
    return isa<Constant>(x) ? x : vb_.intrinsic(Intrinsic::arithmetic_fence, {type_of(wide)}, {x});
  };
  Value* result = emit_float_binary(op, widened(a), widened(b), wide, waits);
  return result->getType() == type_of(wide) ? vb_.cast(Instruction::FPTrunc, result, type_of(type)) : result;
}

Value* FunctionEmitter::emit_binary(const BinaryNode& node) {
  const DType type = node.a.dtype();
  if (type.is_float()) {
    if (Value* contracted = emit_contracted(node)) return contracted;
    Value* a = emit(node.a);
    Value* b = emit(node.b);
    bool waits = false;
    if (node.op == BinaryOp::kMin || node.op == BinaryOp::kMax) {
      const auto state = [&](const Expr& e) {
        const auto* load = e.as<LoadNode>();
        return load && registers_.has(load->buffer.get()) ? load->buffer.get() : nullptr;
      };
      // What is asked whether it is NaN is not what the next step waits for.
      if (state(node.a)) std::swap(a, b);
      const BufferNode* waited_for = state(node.a) ? state(node.a) : state(node.b);
      waits = waited_for && registers_.slots_of(waited_for) == 1;
    }
    const bool compares = node.op != BinaryOp::kAdd && node.op != BinaryOp::kSub && node.op != BinaryOp::kMul &&
                          node.op != BinaryOp::kDiv;
    if (compares && type.element() == kF16 && type.is_vector()) return emit_half_comparison(node.op, a, b, type, waits);
    return emit_float_binary(node.op, widen(a, type), widen(b, type), type, waits);
  }
  if (type.is_vector() && (node.op == BinaryOp::kLt || node.op == BinaryOp::kLe)) {
    if (Value* lanes = emit_lane_compare(node)) return lanes;
  }
  if ((node.op == BinaryOp::kAnd || node.op == BinaryOp::kOr) && !type.is_vector() && reads_unmasked(node.b)) {
    return node.op == BinaryOp::kAnd ? emit_select(node.a, node.b, bool_imm(false))
                                     : emit_select(node.a, bool_imm(true), node.b);
  }
  Value* a = emit(node.a);
  Value* b = emit(node.b);
  if (Value* chosen = emit_chosen_extreme(node.op, type, a, b)) return chosen;
  return emit_int_binary(node.op, type, a, b);
}

/// min(a, select(c, greatest, b)) → select(c, a, min(a, b)), which with AVX-512 is one instruction under a mask.
Value* FunctionEmitter::emit_chosen_extreme(BinaryOp op, DType type, Value* a, Value* b) {
  if (!type.is_vector() || (op != BinaryOp::kMin && op != BinaryOp::kMax)) return nullptr;
  const unsigned bits = static_cast<unsigned>(type.bits);
  const bool is_signed = type.code == TypeCode::kInt, least = op == BinaryOp::kMin;
  const APInt neutral = least       ? is_signed ? APInt::getSignedMaxValue(bits) : APInt::getMaxValue(bits)
                              : is_signed ? APInt::getSignedMinValue(bits)
                                    : APInt::getZero(bits);
  const auto is_neutral = [&](const Value* x) {
    const auto* constant = dyn_cast<Constant>(x);
    const Constant* all = constant ? constant->getSplatValue() : nullptr;
    return all && all->getUniqueInteger() == neutral;
  };
  auto* choice = dyn_cast<SelectInst>(b);
  if (!choice) return nullptr;
  Value *when = choice->getTrueValue(), *otherwise = choice->getFalseValue();
  if (is_neutral(when)) return vb_.select(choice->getCondition(), a, emit_int_binary(op, type, a, otherwise));
  if (is_neutral(otherwise)) return vb_.select(choice->getCondition(), emit_int_binary(op, type, a, when), a);
  return nullptr;
}

/// `extreme` (b where either of a and b is NaN), but NaN where `a` is. AVX-512 does it in one instruction, which takes
/// longer than to select by a comparison that is made before: that is for steps each of which waits for the one before.
Value* FunctionEmitter::with_nan_of(Value* a, Value* extreme, bool waits) {
  const auto* type = dyn_cast<FixedVectorType>(a->getType());
  const bool single = a->getType()->getScalarType()->isFloatTy();
  const bool has_avx512 = state_.target.has_feature("avx512f") && state_.target.has_feature("avx512vl");
  const unsigned bits = type ? type->getNumElements() * (single ? 32 : 64) : 0;
  if (has_avx512 && !waits && (bits == 128 || bits == 256 || bits == 512)) {
    // vfixupimmps: what becomes of a quiet NaN (the source's) and of a signalling one (the same, quiet); others stay.
    constexpr uint64_t table = 0x21;
    const auto id =
        Function::lookupIntrinsicID(fmt::format("llvm.x86.avx512.mask.fixupimm.{}.{}", single ? "ps" : "pd", bits));
    const FunctionType* takes = Intrinsic::getType(vb_.context(), id);
    llvm::SmallVector<Value*, 6> args = {extreme, a, ConstantInt::get(takes->getParamType(2), table),
                                         ConstantInt::get(takes->getParamType(3), 0),
                                         Constant::getAllOnesValue(takes->getParamType(4))};
    if (bits == 512) args.push_back(ConstantInt::get(takes->getParamType(5), 4));  // rounds as everything does
    return vb_.intrinsic(id, {}, args);
  }
  return vb_.select(vb_.compare(CmpInst::FCMP_ORD, a, a), extreme, a);
}

/// NaN where either operand is. x86 has `maxps a, b`, which is b where either is NaN: what is known not to be NaN goes
/// first, and costs nothing; else the NaNs of `a` are put in. waits: b is the only value of a reduction.
Value* FunctionEmitter::emit_extreme(BinaryOp op, Value* a, Value* b, bool waits) {
  const bool least = op == BinaryOp::kMin;
  // The first step of a reduction.
  const auto is_neutral = [&](Value* x) {
    const auto* constant = dyn_cast<Constant>(x);
    const auto* all = constant && x->getType()->isVectorTy() ? constant->getSplatValue() : constant;
    const auto* value = all ? dyn_cast<ConstantFP>(all) : nullptr;
    return value && value->isInfinity() && value->isNegative() != least;
  };
  if (is_neutral(a)) return b;
  if (is_neutral(b)) return a;
  if (state_.target.arch != "x86_64") {
    const auto id = least ? Intrinsic::minimum : Intrinsic::maximum;
    auto* call = CallInst::Create(Intrinsic::getDeclaration(&state_.module, id, {a->getType()}), {a, b});
    call->setHasNoSignedZeros(true);
    return vb_.pure(call);
  }
  // Of constants alone: the phis of loops that are being emitted look like what they begin with.
  const auto is_number = [&](Value* x) {
    return isa<Constant>(x) && isKnownNeverNaN(x, 0, SimplifyQuery(state_.module.getDataLayout()));
  };
  if (is_number(b)) std::swap(a, b);
  Value* extreme = vb_.select(vb_.compare(least ? CmpInst::FCMP_OLT : CmpInst::FCMP_OGT, a, b), a, b);
  return is_number(a) ? extreme : with_nan_of(a, extreme, waits);
}

/// a where it is greater, else b: on x86 `maxps a, b` itself.
Value* FunctionEmitter::emit_ordered_max(Value* a, Value* b) {
  return vb_.select(vb_.compare(CmpInst::FCMP_OGT, a, b), a, b);
}

/// Operands are widened; the result is narrowed.
Value* FunctionEmitter::emit_float_binary(BinaryOp op, Value* a, Value* b, DType type, bool waits) {
  if (op == BinaryOp::kMin || op == BinaryOp::kMax) return narrow(emit_extreme(op, a, b, waits), type);
  if (op == BinaryOp::kOrderedMax) return narrow(emit_ordered_max(a, b), type);
  if (Value* value = emit_plain(op, type, a, b)) return value->getType() == a->getType() ? narrow(value, type) : value;
  return fail(ErrorCode::E301, "an integer operation on floats", a->getType());
}

/// Where it is one instruction; else null.
Value* FunctionEmitter::emit_plain(BinaryOp op, DType type, Value* a, Value* b) {
  if (const unsigned code = find(kArithmetic, op, type))
    return vb_.binary(static_cast<Instruction::BinaryOps>(code), a, b);
  if (const unsigned code = find(kComparisons, op, type))
    return vb_.compare(static_cast<CmpInst::Predicate>(code), a, b);
  if (const unsigned code = find(kExtremes, op, type)) return vb_.intrinsic(code, {a->getType()}, {a, b});
  return nullptr;
}

Value* FunctionEmitter::emit_int_binary(BinaryOp op, DType type, Value* a, Value* b) {
  if (Value* value = emit_plain(op, type, a, b)) return value;
  const bool is_signed = type.code == TypeCode::kInt, quotient = op == BinaryOp::kFloorDiv;
  if (!quotient && op != BinaryOp::kFloorMod)
    return fail(ErrorCode::E301, "a float operation on integers", a->getType());
  const auto* divisor = dyn_cast<Constant>(b);
  if (divisor && divisor->getType()->isVectorTy()) divisor = divisor->getSplatValue();
  const auto* known = divisor ? dyn_cast<ConstantInt>(divisor) : nullptr;
  // Processors end the process where a divisor is zero, or a quotient too large, in lanes, too, that a mask excludes.
  // Where the language has no value, x // 0 is x.
  const bool is_safe = known && !known->isZero() && !known->isMinusOne();
  const auto number = [&](int64_t x) { return ConstantInt::getSigned(a->getType(), x); };
  const auto is = [&](Value* x, int64_t what) { return vb_.compare(CmpInst::ICMP_EQ, x, number(what)); };
  if (!is_safe) b = vb_.select(is(b, 0), number(1), b);
  if (!is_signed) return vb_.binary(quotient ? Instruction::UDiv : Instruction::URem, a, b);
  if (known && known->getValue().isStrictlyPositive() && known->getValue().isPowerOf2()) {
    if (quotient) {
      auto* shift = ConstantInt::get(a->getType(), static_cast<uint64_t>(known->getValue().logBase2()));
      return vb_.binary(Instruction::AShr, a, shift);
    }
    return vb_.binary(Instruction::And, a, ConstantInt::get(a->getType(), known->getValue() - 1));
  }
  // Truncating division, corrected where a remainder is left and the signs differ.
  Value* zero = Constant::getNullValue(a->getType());
  Value* q = nullptr;
  if (is_safe) {
    q = vb_.binary(Instruction::SDiv, a, b);
  } else {
    Value* negates = is(b, -1);
    Value* safe = vb_.select(negates, number(1), b);
    q = vb_.select(negates, vb_.binary(Instruction::Sub, zero, a), vb_.binary(Instruction::SDiv, a, safe));
  }
  Value* r = vb_.binary(Instruction::Sub, a, vb_.binary(Instruction::Mul, q, b));
  Value* wrong;
  if (known && known->getValue().isStrictlyPositive()) {
    wrong = vb_.compare(CmpInst::ICMP_SLT, r, zero);
  } else {
    wrong = vb_.binary(Instruction::And, vb_.compare(CmpInst::ICMP_NE, r, zero),
                       vb_.compare(CmpInst::ICMP_SLT, vb_.binary(Instruction::Xor, r, b), zero));
  }
  if (quotient) return vb_.binary(Instruction::Sub, q, vb_.cast(Instruction::ZExt, wrong, a->getType()));
  return vb_.binary(Instruction::Add, r, vb_.select(wrong, b, zero));
}

/// base + lane < bound, on 64-bit lanes, as a comparison of lane numbers with one clamped scalar; null if it is not of
/// that kind.
Value* FunctionEmitter::emit_lane_compare(const BinaryNode& node) {
  LaneIndex a, b;
  if (node.a.dtype().element() != kI64 || !as_lane_index(node.a, a) || !as_lane_index(node.b, b)) return nullptr;
  const int64_t* stride_a = as_int(a.stride);
  const int64_t* stride_b = as_int(b.stride);
  if (!stride_a || !stride_b || (*stride_a - *stride_b != 1 && *stride_a - *stride_b != -1)) return nullptr;
  const int lanes = node.dtype.lanes;
  Type* i64 = Type::getInt64Ty(vb_.context());
  const auto number = [&](int64_t x) { return ConstantInt::get(i64, static_cast<uint64_t>(x)); };
  Value* room = vb_.binary(Instruction::Sub, emit(b.base), emit(a.base));
  if (node.op == BinaryOp::kLe) room = vb_.binary(Instruction::Add, room, number(1));
  // Lanes are on where lane < room, or -lane < room.
  const bool rising = *stride_a - *stride_b == 1;
  if (!rising) room = vb_.binary(Instruction::Sub, number(0), room);  // lane > -room
  room = vb_.intrinsic(Intrinsic::smax, {i64}, {room, number(rising ? 0 : -1)});
  room = vb_.intrinsic(Intrinsic::smin, {i64}, {room, number(lanes)});
  // Wide enough for -1 and for the number of lanes itself.
  const unsigned bits = lanes <= 16 ? 32 : lanes <= 32 ? 16 : lanes < 128 ? 8 : lanes < 32768 ? 16 : 32;
  Type* narrow_type = Type::getIntNTy(vb_.context(), bits);
  llvm::SmallVector<Constant*, 64> numbers;
  for (int i = 0; i < lanes; ++i) numbers.push_back(ConstantInt::get(narrow_type, static_cast<uint64_t>(i)));
  Value* bound = vb_.splat(vb_.cast(Instruction::Trunc, room, narrow_type), lanes);
  return vb_.compare(rising ? CmpInst::ICMP_SLT : CmpInst::ICMP_SGT, ConstantVector::get(numbers), bound);
}

/// True for reads of memory without a mask, which must not be made where they are not asked for. A mask says which
/// lanes may be read where the read is asked for; see emit_select.
bool FunctionEmitter::reads_unmasked(const Expr& e) const {
  return contains<LoadNode>(e, [&](const LoadNode& load) { return !load.mask && !registers_.has(load.buffer.get()); });
}

Value* FunctionEmitter::emit_select(const Expr& condition, const Expr& if_true, const Expr& if_false) {
  Value* chosen = emit(condition);
  if (const auto* constant = dyn_cast<Constant>(chosen)) {
    if (constant->isAllOnesValue()) return emit(if_true);
    if (constant->isZeroValue()) return emit(if_false);
  }
  const int lanes = if_true.dtype().lanes;
  const auto reads_only = [&](const Expr& e, bool of_these_lanes) {
    return !contains<LoadNode>(e, [&](const LoadNode& load) {
      return !registers_.has(load.buffer.get()) && !(of_these_lanes && load.mask && load.dtype.lanes == lanes);
    });
  };
  bool branches = reads_unmasked(if_true) || reads_unmasked(if_false);
  Value* for_all = nullptr;
  if (!chosen->getType()->isVectorTy() && !branches && !(reads_only(if_true, false) && reads_only(if_false, false))) {
    // One choice for all lanes of reads that have masks: it joins their masks, where they are as many.
    branches = !reads_only(if_true, true) || !reads_only(if_false, true);
    if (!branches) for_all = chosen;
    if (!branches) chosen = vb_.splat(chosen, lanes);
  }
  if (chosen->getType()->isVectorTy()) {
    // Reads below a side touch only the lanes that the side is chosen for.
    const auto side = [&](const Expr& e, bool when) {
      if (!reads_memory(e)) return emit(e);
      Value* mask = chosen;
      if (!when) mask = vb_.binary(Instruction::Xor, mask, Constant::getAllOnesValue(mask->getType()));
      if (lane_mask_ && lane_mask_->getType() == mask->getType()) mask = vb_.binary(Instruction::And, lane_mask_, mask);
      const auto memo = memo_;
      Value *outer = std::exchange(lane_mask_, mask), *any = any_lane_;
      if (for_all) {
        Value* choice = when ? for_all : vb_.binary(Instruction::Xor, for_all, vb_.here().getTrue());
        any_lane_ = any ? vb_.binary(Instruction::And, any, choice) : choice;
      } else if (when) {
        any_lane_ = choice_of_all(condition, any);
      }
      Value* value = emit(e);
      lane_mask_ = outer;
      any_lane_ = any;
      memo_ = memo;
      return value;
    };
    Value* a = side(if_true, true);
    Value* b = side(if_false, false);
    return vb_.select(chosen, a, b);
  }
  if (!branches) return vb_.select(chosen, emit(if_true), emit(if_false));

  BasicBlock* on_true = vb_.new_block();
  BasicBlock* on_false = vb_.new_block();
  BasicBlock* merge = vb_.new_block();
  BasicBlock* from = vb_.here().GetInsertBlock();
  vb_.here().CreateCondBr(chosen, on_true, on_false);
  auto* phi = PHINode::Create(type_of(if_true.dtype()), 2);
  const auto side = [&](BasicBlock* block, const Expr& e) {
    vb_.here().SetInsertPoint(from);
    const auto memo = memo_;
    vb_.open(false, block);
    Value* value = emit(e);
    phi->addIncoming(value, vb_.here().GetInsertBlock());
    vb_.here().CreateBr(merge);
    vb_.close(merge);
    memo_ = memo;
  };
  side(on_true, if_true);
  side(on_false, if_false);
  vb_.here().Insert(phi);
  return vb_.made_here(phi);
}

// --- casts ---

// What fptosi.sat and fptoui.sat mean, which LLVM does lane by lane on x86: NaN becomes 0, what is out of range the
// nearest integer.
Value* FunctionEmitter::saturated(Value* a, DType to) {
  Type *floats = a->getType(), *ints = type_of(to);
  const bool is_signed = to.code == TypeCode::kInt;
  const int digits = to.bits - (is_signed ? 1 : 0);  // of the greatest
  const int exact = floats->getScalarSizeInBits() == 32 ? 24 : 53;
  const auto constant = [&](double value) { return ConstantFP::get(floats, value); };
  // The greatest float that is in range.
  const double most = std::ldexp(1.0, digits) - std::ldexp(1.0, std::max(0, digits - exact));
  Value* number = a;
  if (is_signed || digits > exact) number = vb_.select(vb_.compare(CmpInst::FCMP_ORD, a, a), a, constant(0));
  Value* least = constant(is_signed ? -std::ldexp(1.0, digits) : 0);
  // Of unsigned numbers the least is what NaN becomes: one maximum does both.
  Value* clamped = is_signed ? vb_.select(vb_.compare(CmpInst::FCMP_OLT, number, least), least, number)
                             : vb_.select(vb_.compare(CmpInst::FCMP_OGT, number, least), number, least);
  clamped = vb_.select(vb_.compare(CmpInst::FCMP_OGT, clamped, constant(most)), constant(most), clamped);
  Value* result = vb_.cast(is_signed ? Instruction::FPToSI : Instruction::FPToUI, clamped, ints);
  if (digits <= exact) return result;
  Value* greatest =
      ConstantInt::get(ints, is_signed ? llvm::APInt::getSignedMaxValue(to.bits) : llvm::APInt::getMaxValue(to.bits));
  return vb_.select(vb_.compare(CmpInst::FCMP_OGT, number, constant(most)), greatest, result);
}

/// An integer of at most 16 bits of round(x) + c, c a whole number: x86 converts to the nearest, half to even, so x
/// need not be rounded before. Null: it is something else.
Value* FunctionEmitter::rounded_integer(const CastNode& node) {
  const DType from = node.a.dtype(), to = node.dtype;
  if (state_.target.arch != "x86_64" || from.element() != kF32 || !from.is_vector() || !to.is_int() || to.bits > 16)
    return nullptr;
  const Expr* whole = &node.a;
  double more = 0;
  if (const auto* sum = node.a.as<BinaryNode>(); sum && sum->op == BinaryOp::kAdd) {
    const auto* all = sum->b.as<BroadcastNode>();
    const auto* number = all ? all->value.as<FloatImmNode>() : nullptr;
    if (!number || std::abs(number->value) > 0x1p16 || number->value != std::trunc(number->value)) return nullptr;
    more = number->value;
    whole = &sum->a;
  }
  const auto* rounding = whole->as<CallNode>();
  if (!rounding || rounding->name != "round" || rounding->args.size() != 1) return nullptr;
  Value* a = emit(rounding->args[0]);
  const bool is_signed = to.code == TypeCode::kInt;
  const double least = is_signed ? -std::ldexp(1.0, to.bits - 1) : 0;
  const double most = std::ldexp(1.0, to.bits - (is_signed ? 1 : 0)) - 1;
  const auto constant = [&](double value) { return ConstantFP::get(a->getType(), value); };
  // Of unsigned numbers the least is what NaN becomes, of signed ones it is 0.
  if (is_signed) a = vb_.select(vb_.compare(CmpInst::FCMP_ORD, a, a), a, constant(-more));
  a = vb_.select(vb_.compare(CmpInst::FCMP_OGT, a, constant(least - more)), a, constant(least - more));
  a = vb_.select(vb_.compare(CmpInst::FCMP_OLT, a, constant(most - more)), a, constant(most - more));
  Type* wide = type_of(kI32.with_lanes(to.lanes));
  Value* integer = vb_.intrinsic(Intrinsic::lrint, {wide, a->getType()}, {a});
  if (more != 0)
    integer = vb_.binary(Instruction::Add, integer,
                         ConstantInt::get(wide, static_cast<uint64_t>(static_cast<int64_t>(more)), true));
  return vb_.cast(Instruction::Trunc, integer, type_of(to));
}

/// f32(x & c), c of four bits, in 16 lanes: one of 16 numbers, which AVX-512 looks up by the low bits of x in one
/// instruction, where a mask and a conversion are two. Null: it is something else.
Value* FunctionEmitter::looked_up(const CastNode& node) {
  constexpr int kNumbers = 16;
  const auto* masked = node.a.as<BinaryNode>();
  if (!masked || masked->op != BinaryOp::kBitAnd || node.dtype != kF32.with_lanes(kNumbers)) return nullptr;
  if (!node.a.dtype().is_int() || node.a.dtype().bits != 32 || !state_.target.has_feature("avx512f")) return nullptr;
  const auto* mask = dyn_cast<Constant>(emit(masked->b));
  const auto* bits = mask ? dyn_cast_or_null<ConstantInt>(mask->getSplatValue()) : nullptr;
  if (!bits || bits->getZExtValue() >= kNumbers) return nullptr;
  llvm::SmallVector<Constant*, kNumbers> numbers;
  Type* element = Type::getFloatTy(vb_.context());
  for (uint64_t i = 0; i < kNumbers; ++i)
    numbers.push_back(ConstantFP::get(element, static_cast<double>(i & bits->getZExtValue())));
  const auto id = Function::lookupIntrinsicID("llvm.x86.avx512.permvar.sf.512");
  return vb_.intrinsic(id, {}, {llvm::ConstantVector::get(numbers), emit(masked->a)});
}

Value* FunctionEmitter::emit_cast(const CastNode& node) {
  const DType from = node.a.dtype(), to = node.dtype;
  if (Value* number = looked_up(node)) return number;
  if (Value* integer = rounded_integer(node)) return integer;
  Value* a = emit(node.a);
  if (from == to) return a;
  Type* type = type_of(to);
  if (from.code == TypeCode::kHandle || to.code == TypeCode::kHandle)
    return fail(ErrorCode::E301, "a cast of a pointer", type);
  const bool signed_from = from.code == TypeCode::kInt;
  if (to.is_bool()) {
    if (from.is_float()) {
      Value* wide = widen(a, from);
      return vb_.compare(CmpInst::FCMP_UNE, wide, Constant::getNullValue(wide->getType()));
    }
    return vb_.compare(CmpInst::ICMP_NE, a, Constant::getNullValue(a->getType()));
  }
  if (to.is_int()) {
    if (from.is_float()) {
      Value* wide = widen(a, from);
      if (to.is_vector()) return saturated(wide, to);
      return vb_.intrinsic(to.code == TypeCode::kInt ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                           {type, wide->getType()}, {wide});
    }
    const unsigned bits = from.is_bool() ? 1 : from.bits;
    if (bits > to.bits) return vb_.cast(Instruction::Trunc, a, type);
    return vb_.cast(signed_from ? Instruction::SExt : Instruction::ZExt, a, type);  // none where bits are equal
  }
  const DType wide_to = is_bf16(to) ? kF32.with_lanes(to.lanes) : to;
  Type* wide_type = type_of(wide_to);
  if (!from.is_float()) {
    return narrow(vb_.cast(signed_from ? Instruction::SIToFP : Instruction::UIToFP, a, wide_type), to);
  }
  Value* wide = widen(a, from);
  const unsigned have = wide->getType()->getScalarSizeInBits(), want = wide_type->getScalarSizeInBits();
  if (have > want) wide = vb_.cast(Instruction::FPTrunc, wide, wide_type);
  if (have < want) wide = vb_.cast(Instruction::FPExt, wide, wide_type);
  return narrow(wide, to);
}

}  // namespace fettle::llvm_backend
