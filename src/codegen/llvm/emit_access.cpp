// Loads and stores: of memory, contiguous, strided or scattered, with and without a mask; and of register buffers.
#include <bit>
#include <numeric>

#include "codegen/llvm/function_emitter.h"
#include "codegen/llvm/lane_offsets.h"
#include "ir/byte_table.h"

namespace fettle::llvm_backend {

using namespace llvm;

bool as_lane_index(const Expr& e, LaneIndex& out) {
  out.lanes = e.dtype().lanes;
  if (out.lanes == 1) {
    out.base = e;
    out.stride = int_imm(0);
    return true;
  }
  if (const auto* node = e.as<RampNode>()) {
    out.base = node->base;
    out.stride = node->stride;
    return true;
  }
  if (const auto* node = e.as<BroadcastNode>()) {
    out.base = node->value;
    out.stride = int_imm(0);
    return out.base.dtype().lanes == 1;
  }
  const auto* binary = e.as<BinaryNode>();
  if (!binary || e.dtype().element() != kI64) return false;
  LaneIndex a, b;
  if (!as_lane_index(binary->a, a) || !as_lane_index(binary->b, b)) return false;
  switch (binary->op) {
    case BinaryOp::kAdd:
      out.base = a.base + b.base;
      out.stride = a.stride + b.stride;
      return true;
    case BinaryOp::kSub:
      out.base = a.base - b.base;
      out.stride = a.stride - b.stride;
      return true;
    case BinaryOp::kMul:
      if (is_zero(a.stride)) std::swap(a, b);
      if (!is_zero(b.stride)) return false;
      out.base = a.base * b.base;
      out.stride = a.stride * b.base;
      return true;
    default:
      return false;
  }
}

FunctionEmitter::MemoryBuffer* FunctionEmitter::memory(const BufferNode* buffer) {
  const auto found = buffers_.find(buffer);
  if (found != buffers_.end()) return &found->second;
  fail(ErrorCode::E301, "buffer " + buffer->name + " is neither a parameter nor allocated around its use",
       Type::getInt32Ty(vb_.context()));
  MemoryBuffer& made = buffers_[buffer];
  made.pointer = PoisonValue::get(PointerType::get(vb_.context(), 0));
  return &made;
}

Value* FunctionEmitter::finish_access(Instruction* access, const BufferNode* buffer) {
  buffers_[buffer].accesses.push_back(access);
  return access;
}

/// The mask as i1 lanes; null where it is absent or all true.
Value* FunctionEmitter::memory_mask(const Expr& mask) {
  if (is_true(mask)) return nullptr;
  Value* value = emit(mask);
  const auto* constant = dyn_cast<Constant>(value);
  return constant && constant->isAllOnesValue() ? nullptr : value;
}

/// What a condition says of all lanes alike, and `around` it (null: nothing): false where either is.
///   broadcast(0 <= i - 3, 16) && ramp(0, 1, 16) < broadcast(n, 16)   →   0 <= i - 3
Value* FunctionEmitter::choice_of_all(const Expr& condition, Value* around) {
  if (const auto* both = condition.as<BinaryNode>(); both && both->op == BinaryOp::kAnd && condition.dtype().lanes > 1)
    return choice_of_all(both->b, choice_of_all(both->a, around));
  const auto* same = condition.as<BroadcastNode>();
  if (!same || same->value.dtype().lanes != 1) return around;
  Value* choice = emit(same->value);
  return around ? vb_.binary(Instruction::And, around, choice) : choice;
}

/// Where a read under a mask looks: at the buffer's begin, if no lane is on. A mask without lanes at a page that is not
/// there is no fault, but takes a hundred times as long (Zen 4).
Value* FunctionEmitter::masked_address(const BufferNode* buffer, const Expr& index) {
  Value* pointer = address(buffer, index);
  return any_lane_ ? vb_.select(any_lane_, pointer, memory(buffer)->pointer) : pointer;
}

/// A constant mask as a value of a mask register. LLVM makes a choice by a constant mask a shuffle, for which a
/// multiply-add and the lanes that it keeps are two instructions and a copy; by a mask that it does not know they are
/// one.
Value* FunctionEmitter::run_time_mask(Value* mask) {
  const auto* constant = dyn_cast<Constant>(mask);
  const unsigned lanes = cast<FixedVectorType>(mask->getType())->getNumElements();
  if (!constant || !state_.target.has_feature("avx512f") || (lanes != 16 && lanes != 8)) return mask;
  Value*& known = run_time_masks_[constant];
  if (known) return known;
  uint64_t bits = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Constant* on = constant->getAggregateElement(lane);
    if (!on || !isa<ConstantInt>(on)) return known = mask;
    bits |= uint64_t{cast<ConstantInt>(on)->isOne()} << lane;
  }
  BasicBlock& entry = vb_.function()->getEntryBlock();
  IRBuilder<> first(&entry, entry.begin());
  Type* type = first.getIntNTy(lanes);
  AllocaInst* place = first.CreateAlloca(type);
  first.CreateStore(ConstantInt::get(type, bits), place, true);
  known = first.CreateBitCast(first.CreateLoad(type, place, true), mask->getType());
  vb_.made_at(known, 0);
  return known;
}

Value* FunctionEmitter::gather_pointers(const BufferNode* buffer, const Expr& index) {
  Value* lanes = emit(index);
  Type* element = memory_type_of(buffer->dtype.element());
  return vb_.pure(GetElementPtrInst::Create(element, memory(buffer)->pointer, {lanes}));
}

Value* FunctionEmitter::emit_load(const LoadNode& node) {
  if (node.indices.size() != 1)
    return fail(ErrorCode::E301, "an access of " + node.buffer->name + " is not flat", type_of(node.dtype));
  const BufferNode* buffer = node.buffer.get();
  const Expr& index = node.indices[0];
  Value* const zeros = memory_mask(node.mask);
  Value *mask = zeros, *value = nullptr;
  if (registers_.has(buffer)) {
    value = read_register(registers_.find(buffer, index, forms_));
    return mask ? vb_.select(mask, value, Constant::getNullValue(value->getType())) : value;
  }
  Type* type = memory_type_of(node.dtype);
  const int lanes = index.dtype().lanes;
  if (lanes == 1 && mask) {
    value = emit_select(node.mask, load(node.buffer, {index}), constant(0, node.dtype));
    return value;
  }
  if (lanes > 1 && lane_mask_ &&
      cast<FixedVectorType>(lane_mask_->getType())->getNumElements() == static_cast<unsigned>(lanes))
    mask = mask ? vb_.binary(Instruction::And, mask, lane_mask_) : lane_mask_;
  Value* around = any_lane_;
  if (lanes > 1 && node.mask) any_lane_ = choice_of_all(node.mask, any_lane_);
  value = load_lanes(buffer, index, mask, zeros, type);
  any_lane_ = around;
  if (node.dtype.is_bool()) value = vb_.compare(CmpInst::ICMP_NE, value, Constant::getNullValue(value->getType()));
  return value;
}

/// Elements of a table of 256 bytes that bytes choose: in registers that hold the table where the target permutes bytes
/// (AVX-512 VBMI), else read one by one, for which LLVM needs no vector of addresses. Null where it is no such read.
Value* FunctionEmitter::look_up_bytes(const BufferNode* buffer, const Expr& index, Value* mask, Type* type) {
  constexpr int kRegister = 64;
  const auto* widened = index.as<CastNode>();
  const int64_t* extent = buffer->shape.size() == 1 ? as_int(buffer->shape[0]) : nullptr;
  const int lanes = index.dtype().lanes;
  if (!widened || widened->a.dtype().element() != kU8 || buffer->dtype.bits != 8 || !extent || *extent != kByteValues ||
      lanes < 4 || lanes > kRegister)
    return nullptr;
  if (!state_.target.has_feature("avx512vbmi")) {
    if (mask) return nullptr;
    Value *bytes = emit(widened->a), *result = PoisonValue::get(type);
    for (int lane = 0; lane < lanes; ++lane) {
      Value* offset = vb_.cast(Instruction::ZExt, vb_.extract(bytes, lane), Type::getInt64Ty(vb_.context()));
      auto* made =
          new LoadInst(type->getScalarType(), vb_.byte_offset(memory(buffer)->pointer, offset), "", false, Align(1));
      Value* value = vb_.read(made, memory(buffer)->state);
      result = vb_.insert(result, value == made ? finish_access(made, buffer) : value, lane);
    }
    return result;
  }
  const auto in_lanes = [](int from, int to) {
    llvm::SmallVector<int, kRegister> order(static_cast<size_t>(to), PoisonMaskElem);
    std::iota(order.begin(), order.begin() + std::min(from, to), 0);
    return order;
  };
  Value* bytes = emit(widened->a);
  if (lanes < kRegister) bytes = vb_.shuffle(bytes, bytes, in_lanes(lanes, kRegister));
  auto* whole = FixedVectorType::get(type->getScalarType(), kRegister);
  const auto permutes = Function::lookupIntrinsicID("llvm.x86.avx512.vpermi2var.qi.512");
  const auto of_half = [&](int first) {  // by the lower seven bits
    Value *low = load_plain(buffer, Expr(first), whole), *high = load_plain(buffer, Expr(first + kRegister), whole);
    return vb_.intrinsic(permutes, {}, {low, bytes, high});
  };
  Value* lower = of_half(0);
  Value* upper = of_half(kByteValues / 2);
  Value* value =
      vb_.select(vb_.compare(CmpInst::ICMP_SLT, bytes, Constant::getNullValue(bytes->getType())), upper, lower);
  if (lanes < kRegister) value = vb_.shuffle(value, value, in_lanes(kRegister, lanes));
  return mask ? vb_.select(mask, value, Constant::getNullValue(type)) : value;
}

/// How many elements of a buffer a vector register holds. What has more lanes and a mask is read and written in parts:
/// LLVM 19 splits it, too, but reads all of a part whose lanes a constant in the mask excludes.
int FunctionEmitter::lanes_of_a_register(const BufferNode* buffer) const {
  return std::max(1, state_.target.vector_bits / 8 / static_cast<int>(buffer->dtype.element_bytes()));
}

Value* FunctionEmitter::part_of(Value* vector, int first, int n) {
  const auto lanes = cast<FixedVectorType>(vector->getType())->getNumElements();
  if (static_cast<unsigned>(n) == lanes) return vector;
  if (const auto* constant = dyn_cast<Constant>(vector)) {
    llvm::SmallVector<Constant*, 16> elements;
    for (int i = first; i < first + n; ++i) elements.push_back(constant->getAggregateElement(static_cast<unsigned>(i)));
    if (llvm::all_of(elements, [](const Constant* element) { return element != nullptr; }))
      return ConstantVector::get(elements);
  }
  if (const auto* both = dyn_cast<BinaryOperator>(vector); both && both->getOpcode() == Instruction::And) {
    Value *a = part_of(both->getOperand(0), first, n), *b = part_of(both->getOperand(1), first, n);
    for (Value* side : {a, b})
      if (const auto* constant = dyn_cast<Constant>(side))
        if (constant->isNullValue() || constant->isAllOnesValue())
          return constant->isNullValue() ? side : side == a ? b : a;
    return vb_.binary(Instruction::And, a, b);
  }
  llvm::SmallVector<int, 16> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), first);
  return vb_.shuffle(vector, vector, order);
}

/// One element, or as many side by side from `index` (a scalar) on as `type` has.
Value* FunctionEmitter::load_plain(const BufferNode* buffer, const Expr& index, Type* type) {
  const Align align(static_cast<uint64_t>(buffer->dtype.element_bytes()));
  auto* made = new LoadInst(type, address(buffer, index), "", false, align);
  Value* value = vb_.read(made, memory(buffer)->state);
  return value == made ? finish_access(made, buffer) : value;
}

/// Lanes that lie near each other, though not side by side: what lies around them is read whole and shuffled. Null
/// where that takes more loads than half the lanes, or a mask is not known.
///   A[{0, 2, 4, …, 30}] of 16 lanes   →   shuffle(A[0…15], A[15…30])
Value* FunctionEmitter::load_windows(const BufferNode* buffer, const Expr& index, Value* mask, Type* type) {
  const auto lanes = static_cast<size_t>(index.dtype().lanes);
  std::vector<bool> on;
  if (mask) {
    const auto* known = dyn_cast<Constant>(mask);
    if (!known) return nullptr;
    for (unsigned i = 0; i < lanes; ++i) {
      const auto* lane = dyn_cast_or_null<ConstantInt>(known->getAggregateElement(i));
      if (!lane) return nullptr;
      on.push_back(lane->isOne());
    }
  }
  const auto offsets = lane_offsets(index);
  if (!offsets) return nullptr;
  const auto widest = static_cast<int64_t>(std::bit_floor(static_cast<unsigned>(lanes_of_a_register(buffer))));
  const LaneWindows windows = lane_windows(offsets->at, widest, mask ? &on : nullptr);
  if (windows.first.empty()) return Constant::getNullValue(type);
  if (2 * windows.first.size() > lanes) return nullptr;

  Type* run = FixedVectorType::get(type->getScalarType(), static_cast<unsigned>(windows.size));
  std::vector<Value*> read;
  for (const int64_t first : windows.first) read.push_back(load_plain(buffer, offsets->base + Expr(first), run));
  // Two windows at once, then one more each time. Lanes of later ones stay undefined until then.
  const int size = static_cast<int>(windows.size), many = static_cast<int>(read.size());
  llvm::SmallVector<int, 64> order(lanes, PoisonMaskElem);
  const auto take = [&](int window, int from) {
    for (size_t i = 0; i < lanes; ++i)
      if (windows.window[i] == window) order[i] = from + windows.place[i];
  };
  take(0, 0);
  if (many > 1) take(1, size);
  Value* value = vb_.shuffle(read[0], read[many > 1 ? 1 : 0], order);
  for (int window = 2; window < many; ++window) {
    llvm::SmallVector<int, 64> widened(lanes, PoisonMaskElem);
    for (size_t i = 0; i < lanes; ++i) {
      order[i] = static_cast<int>(i);
      if (windows.window[i] != window) continue;
      widened[i] = windows.place[i];
      order[i] = static_cast<int>(lanes + i);
    }
    value = vb_.shuffle(
        value, vb_.shuffle(read[static_cast<size_t>(window)], read[static_cast<size_t>(window)], widened), order);
  }
  return mask ? vb_.select(mask, value, Constant::getNullValue(type)) : value;
}

Value* FunctionEmitter::load_lanes(const BufferNode* buffer, const Expr& index, Value* mask, Value* zeros, Type* type) {
  const Align align(static_cast<uint64_t>(buffer->dtype.element_bytes()));
  const auto masked = [&](Intrinsic::ID id, Value* pointer, Type* what, Value* which) -> Value* {
    auto* bytes = ConstantInt::get(Type::getInt32Ty(vb_.context()), align.value());
    Function* callee = Intrinsic::getDeclaration(&state_.module, id, {what, pointer->getType()});
    auto* made = CallInst::Create(callee, {pointer, bytes, which, Constant::getNullValue(what)});
    Value* value = vb_.read(made, memory(buffer)->state);
    return value == made ? finish_access(made, buffer) : value;
  };
  const int lanes = index.dtype().lanes;
  if (lanes == 1) return load_plain(buffer, index, type);
  LaneIndex run;
  const bool is_run = as_lane_index(index, run);
  if (!is_run || !(is_one(run.stride) || is_zero(run.stride)))
    if (Value* value = load_windows(buffer, index, mask, type)) return value;
  if (!is_run) {
    if (Value* value = look_up_bytes(buffer, index, mask, type)) return value;
    if (!mask) mask = Constant::getAllOnesValue(type_of(kBool.with_lanes(lanes)));
    return masked(Intrinsic::masked_gather, gather_pointers(buffer, index), type, mask);
  }
  if (is_one(run.stride)) {
    if (!mask) return load_plain(buffer, run.base, type);
    // The same lanes read whole before are as good.
    auto* whole = new LoadInst(type, address(buffer, run.base), "", false, align);
    if (Value* known = vb_.find(whole, memory(buffer)->state))
      return zeros ? vb_.select(zeros, known, Constant::getNullValue(type)) : known;
    const int widest = lanes_of_a_register(buffer);
    if (lanes <= widest) return masked(Intrinsic::masked_load, masked_address(buffer, run.base), type, mask);
    Value* joined = Constant::getNullValue(type);
    for (int first = 0; first < lanes; first += widest) {
      const int n = std::min(widest, lanes - first);
      Value* which = part_of(mask, first, n);
      const auto* constant = dyn_cast<Constant>(which);
      if (constant && constant->isNullValue()) continue;
      Type* what = FixedVectorType::get(type->getScalarType(), static_cast<unsigned>(n));
      const Expr place = run.base + Expr(first);
      Value* part = constant && constant->isAllOnesValue()
                        ? load_plain(buffer, place, what)
                        : masked(Intrinsic::masked_load, masked_address(buffer, place), what, which);
      std::vector<int> widened(static_cast<size_t>(lanes), 0), taken(static_cast<size_t>(lanes));
      std::iota(widened.begin(), widened.begin() + n, 0);
      std::iota(taken.begin(), taken.end(), 0);
      std::iota(taken.begin() + first, taken.begin() + first + n, lanes);
      joined = vb_.shuffle(joined, vb_.shuffle(part, part, widened), taken);
    }
    return joined;
  }
  if (is_zero(run.stride) && !mask) return vb_.splat(load_plain(buffer, run.base, type->getScalarType()), lanes);
  if (mask && is_zero(run.stride) && buffer->dtype.bits >= 32) {
    // One element for all lanes that are on, if any is.
    const auto n = static_cast<unsigned>(16 / buffer->dtype.element_bytes());
    Value* any = vb_.intrinsic(Intrinsic::vector_reduce_or, {mask->getType()}, {mask});
    Value* which = vb_.insert(Constant::getNullValue(FixedVectorType::get(any->getType(), n)), any, 0);
    Value* first = masked(Intrinsic::masked_load, masked_address(buffer, run.base),
                          FixedVectorType::get(type->getScalarType(), n), which);
    return vb_.select(mask, vb_.splat(vb_.extract(first, 0), lanes), Constant::getNullValue(type));
  }
  if (mask) return masked(Intrinsic::masked_gather, gather_pointers(buffer, index), type, mask);
  Value* vector = PoisonValue::get(type);
  for (int i = 0; i < lanes; ++i)
    vector = vb_.insert(vector, load_plain(buffer, run.base + run.stride * Expr(i), type->getScalarType()), i);
  return vector;
}

void FunctionEmitter::emit_store(const StoreNode& node) {
  const BufferNode* buffer = node.buffer.get();
  if (node.indices.size() != 1) {
    fail(ErrorCode::E301, "an access of " + buffer->name + " is not flat", Type::getInt32Ty(vb_.context()));
    return;
  }
  const Expr& index = node.indices[0];
  Value* mask = memory_mask(node.mask);
  if (registers_.has(buffer)) {
    const RegisterAccess access = registers_.find(buffer, index, forms_);
    if (separate_steps_) separate_steps(access.slot);
    Value* value = emit(node.value);
    write_register(access, mask ? vb_.select(run_time_mask(mask), value, read_register(access)) : value);
    return;
  }
  if (mask && index.dtype().lanes == 1) {
    emit_if(IfNode(node.mask, store(node.buffer, node.indices, node.value), nullptr));
    return;
  }
  Value* value = emit(node.value);
  if (node.value.dtype().is_bool()) value = vb_.cast(Instruction::ZExt, value, memory_type_of(node.value.dtype()));
  store_lanes(buffer, index, value, mask);
  memory(buffer)->state = ++next_state_;
}

// How many lanes a mask that is known lets through, if these are the first; else 0.
static int first_lanes(const Constant* mask) {
  const int lanes = static_cast<int>(cast<FixedVectorType>(mask->getType())->getNumElements());
  int on = 0;
  for (int i = 0; i < lanes; ++i) {
    const Constant* lane = mask->getAggregateElement(static_cast<unsigned>(i));
    if (!lane || !isa<ConstantInt>(lane)) return 0;
    if (!lane->isOneValue()) continue;
    if (on != i) return 0;
    ++on;
  }
  return on;
}

void FunctionEmitter::store_lanes(const BufferNode* buffer, const Expr& index, Value* value, Value* mask) {
  const Align align(static_cast<uint64_t>(buffer->dtype.element_bytes()));
  const int lanes = index.dtype().lanes;
  auto& b = vb_.here();
  const auto plain = [&](Value* what, Value* pointer) {
    finish_access(b.CreateAlignedStore(what, pointer, align), buffer);
  };
  LaneIndex run;
  const bool is_run = as_lane_index(index, run);
  if (lanes == 1) {
    plain(value, address(buffer, index));
  } else if (is_run && is_one(run.stride)) {
    if (!mask) return plain(value, address(buffer, run.base));
    const int widest = lanes_of_a_register(buffer);
    for (int first = 0; first < lanes; first += widest) {
      const int n = std::min(widest, lanes - first);
      Value* which = part_of(mask, first, n);
      const auto* constant = dyn_cast<Constant>(which);
      if (constant && constant->isNullValue()) continue;
      // Without AVX-512, halves, quarters, … of a vector take less than one store under a mask (Zen 3: 4 and 20
      // cycles).
      if (int left = constant && !state_.target.has_feature("avx512f") ? first_lanes(constant) : 0; left > 0) {
        for (int at = first; left > 0;) {
          const int piece = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
          plain(piece == 1 ? vb_.extract(value, at) : part_of(value, at, piece), address(buffer, run.base + Expr(at)));
          at += piece;
          left -= piece;
        }
        continue;
      }
      Value* pointer = address(buffer, run.base + Expr(first));
      finish_access(b.CreateMaskedStore(part_of(value, first, n), pointer, align, which), buffer);
    }
  } else if (is_run && !mask) {
    for (int i = 0; i < lanes; ++i) plain(vb_.extract(value, i), address(buffer, run.base + run.stride * Expr(i)));
  } else {
    if (!mask) mask = Constant::getAllOnesValue(type_of(kBool.with_lanes(lanes)));
    finish_access(b.CreateMaskedScatter(value, gather_pointers(buffer, index), align, mask), buffer);
  }
}

// --- registers ---

Value* FunctionEmitter::read_register(const RegisterAccess& access) {
  const RegisterSlot& slot = registers_.slots()[static_cast<size_t>(access.slot)];
  Value* whole = slot_values_[static_cast<size_t>(access.slot)];
  if (access.lanes == slot.lanes) return whole;
  if (access.lanes == 1) return vb_.extract(whole, access.lane);
  llvm::SmallVector<int, 64> lanes;
  for (int i = 0; i < access.lanes; ++i) lanes.push_back(access.lane + i);
  return vb_.shuffle(whole, PoisonValue::get(whole->getType()), lanes);
}

void FunctionEmitter::write_register(const RegisterAccess& access, Value* value) {
  const RegisterSlot& slot = registers_.slots()[static_cast<size_t>(access.slot)];
  Value*& whole = slot_values_[static_cast<size_t>(access.slot)];
  if (access.lanes == slot.lanes) {
    whole = value;
    return;
  }
  for (int i = 0; i < access.lanes; ++i)
    whole = vb_.insert(whole, access.lanes == 1 ? value : vb_.extract(value, i), access.lane + i);
}

/// Before slot `slot` is written: where that begins another step, nothing read before is known any more. A fence for
/// this thread alone is no instruction, but keeps instruction selection from taking equal loads together again.
void FunctionEmitter::separate_steps(int slot) {
  if (step_slots_.insert(slot).second) return;
  step_slots_ = {slot};
  vb_.here().CreateFence(AtomicOrdering::AcquireRelease, SyncScope::SingleThread);
  for (auto& [buffer, place] : buffers_) place.state = ++next_state_;
}

}  // namespace fettle::llvm_backend
