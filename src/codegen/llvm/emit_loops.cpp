// Serial loops, `while` and `if`, with the values of register buffers carried through them.
#include <llvm/IR/MDBuilder.h>

#include "codegen/llvm/crowded_steps.h"
#include "codegen/llvm/function_emitter.h"
#include "ir/rewrite.h"
#include "rt/abi.h"

namespace fettle::llvm_backend {

using namespace llvm;

/// What `stmt` may change: slots and buffers, but for those that live inside it.
FunctionEmitter::Effects FunctionEmitter::effects_of(const Stmt& stmt) {
  Effects effects;
  std::unordered_set<const BufferNode*> inside;
  walk(stmt, [&](const Stmt& s) {
    if (const auto* allocation = s.as<AllocateNode>()) inside.insert(allocation->buffer.get());
    if (s.kind() == StmtKind::kCallFunc) effects.calls = true;
    if (const auto* loop = s.as<ForNode>(); loop && loop->loop_kind == ForKind::kParallel) effects.calls = true;
    return true;
  });
  each_access(stmt, [&](const Buffer& accessed, const std::vector<Expr>& indices, AccessKind kind) {
    const BufferNode* buffer = accessed.get();
    // Whoever is given an address may write there.
    if (kind == AccessKind::kAddress) effects.buffers.insert(buffer);
    if (kind != AccessKind::kWrite || indices.size() != 1 || inside.count(buffer)) return;
    if (registers_.has(buffer))
      effects.slots.insert(registers_.find(buffer, indices[0], forms_).slot);
    else
      effects.buffers.insert(buffer);
  });
  return effects;
}

/// Reads after this see other content than reads before.
void FunctionEmitter::forget(const Effects& effects) {
  for (const BufferNode* buffer : effects.buffers)
    if (const auto found = buffers_.find(buffer); found != buffers_.end()) found->second.state = ++next_state_;
}

/// At the head of a loop that is entered from `from`: a phi for each slot that the body changes.
std::vector<FunctionEmitter::SlotPhi> FunctionEmitter::carry_slots(const Effects& effects, BasicBlock* from) {
  std::vector<SlotPhi> carried;
  for (const int slot : effects.slots) {
    Value*& value = slot_values_[static_cast<size_t>(slot)];
    PHINode* phi = vb_.here().CreatePHI(value->getType(), 2);
    phi->addIncoming(value, from);
    carried.push_back({slot, phi});
    value = vb_.made_here(phi);
  }
  return carried;
}

/// After the loop (the current block): the values at its end, which for a loop that tests first are those at its head.
/// A slot that no iteration reads before it writes is not carried at all, if that test comes last.
void FunctionEmitter::finish_slots(const std::vector<SlotPhi>& carried, BasicBlock* latch, bool tests_first) {
  for (const SlotPhi& slot : carried) {
    Value*& value = slot_values_[static_cast<size_t>(slot.slot)];
    slot.phi->addIncoming(value, latch);
    if (tests_first) value = slot.phi;
    vb_.made_here(value);
    if (slot.phi->use_empty() && value != slot.phi) vb_.erase(slot.phi);
  }
}

/// Where two ways meet: a phi for each slot that differs between them.
void FunctionEmitter::merge_slots(const std::vector<Value*>& a, BasicBlock* from_a, const std::vector<Value*>& b,
                                  BasicBlock* from_b) {
  for (size_t i = 0; i < slot_values_.size(); ++i) {
    if (a[i] == b[i] || !a[i] || !b[i]) continue;
    PHINode* phi = vb_.here().CreatePHI(a[i]->getType(), 2);
    phi->addIncoming(a[i], from_a);
    phi->addIncoming(b[i], from_b);
    slot_values_[i] = vb_.made_here(phi);
  }
}

bool FunctionEmitter::provably_positive(const Expr& e) const {
  if (const int64_t* value = as_int(e)) return *value > 0;
  if (const auto* var = e.as<VarNode>()) {
    const auto found = var_minimum_.find(var);
    return found != var_minimum_.end() && found->second > 0;
  }
  const auto* binary = e.as<BinaryNode>();
  if (!binary) return false;
  switch (binary->op) {
    case BinaryOp::kMul:
    case BinaryOp::kAdd:
    case BinaryOp::kMin:
      return provably_positive(binary->a) && provably_positive(binary->b);
    case BinaryOp::kMax:
      return provably_positive(binary->a) || provably_positive(binary->b);
    default:
      return false;
  }
}

///   for v in [min, min+extent): S
/// → v = min; do { S; v = v+1 } while (v < min+extent)     where the extent is known to be positive
/// → v = min; while (v < min+extent) { S; v = v+1 }        elsewhere: so no value needs a second phi behind the loop
void FunctionEmitter::emit_for(const ForNode& node) {
  if (node.loop_kind == ForKind::kParallel) return emit_parallel(node);
  if (node.loop_kind != ForKind::kSerial) {
    fail(ErrorCode::E301, "loop " + node.var->name + " is neither serial nor parallel",
         Type::getInt32Ty(vb_.context()));
    return;
  }
  if (is_zero(node.extent)) return;
  auto& b = vb_.here();
  Value* extent = emit(node.extent);
  if (is_one(node.extent)) {  // once
    vars_[node.var.get()] = emit(node.min);
    forms_.define(node.var.get(), forms_.form(node.min));
    emit(node.body);
    forms_.forget(node.var.get());  // another loop may have the variable
    return;
  }
  Value* first = emit(node.min);
  Value* end = vb_.binary(Instruction::Add, first, extent);
  const Effects effects = effects_of(node.body);
  forget(effects);

  const bool tests_first = !provably_positive(node.extent);
  BasicBlock* header = vb_.new_block();
  BasicBlock* body = tests_first ? vb_.new_block() : header;
  BasicBlock* exit = vb_.new_block();
  BasicBlock* before = b.GetInsertBlock();
  b.CreateBr(header);
  vb_.open(true, header);

  PHINode* counter = b.CreatePHI(b.getInt64Ty(), 2);
  counter->addIncoming(first, before);
  vb_.made_here(counter);
  vars_[node.var.get()] = counter;
  const auto carried = carry_slots(effects, before);

  Loop loop;
  loop.var = node.var.get();
  loop.level = vb_.depth();
  loop.header = header;
  loop.before = before;
  loop.first = forms_.form(node.min);
  loop.has_calls = effects.calls;
  plan_rows(loop, node.body);
  loops_.push_back(std::move(loop));
  b.SetInsertPoint(body);
  separate_steps_ = steps_crowd(node.body, registers_, forms_, state_.target.vector_registers);
  step_slots_.clear();
  emit(node.body);
  separate_steps_ = false;

  BasicBlock* latch = b.GetInsertBlock();
  std::vector<const PointerPhi*> pointers(loops_.back().pointers.size());
  for (const auto& [key, pointer] : loops_.back().pointers) pointers[pointer.number] = &pointer;
  for (const PointerPhi* pointer : pointers) {
    auto* next = b.CreateGEP(b.getInt8Ty(), pointer->phi, {pointer->bump_bytes});
    pointer->phi->addIncoming(next, latch);
  }
  loops_.pop_back();
  // Where nobody asks for the number, counting down leaves the flags set.
  const bool down = counter->use_empty();
  if (down) counter->setIncomingValue(0, extent);
  // Counters below 0 pass -1 + 1, which wraps around as an unsigned number.
  const int64_t* from = as_int(node.min);
  const bool is_unsigned = from && *from >= 0;
  Value* next = down ? b.CreateSub(counter, b.getInt64(1)) : b.CreateAdd(counter, b.getInt64(1), "", is_unsigned, true);
  counter->addIncoming(next, latch);
  if (tests_first) {
    b.CreateBr(header);
    b.SetInsertPoint(header);
    b.CreateCondBr(down ? b.CreateICmpSGT(counter, b.getInt64(0)) : b.CreateICmpSLT(counter, end), body, exit);
  } else {
    b.CreateCondBr(down ? b.CreateICmpNE(next, b.getInt64(0)) : b.CreateICmpSLT(next, end), header, exit);
  }
  vb_.close(exit);
  finish_slots(carried, latch, tests_first);
  forget(effects);
}

void FunctionEmitter::emit_while(const WhileNode& node) {
  auto& b = vb_.here();
  const Effects effects = effects_of(node.body);
  forget(effects);
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* header = vb_.new_block();
  BasicBlock* body = vb_.new_block();
  BasicBlock* exit = vb_.new_block();
  b.CreateBr(header);
  vb_.open(true, header);
  const auto carried = carry_slots(effects, before);
  Loop loop;
  loop.level = vb_.depth();
  loop.header = header;
  loop.before = before;
  loops_.push_back(std::move(loop));
  memo_.clear();
  Value* condition = emit(node.condition);
  // What a kernel that failed has not written may never end the loop.
  if (is_host())
    condition = b.CreateAnd(condition, b.CreateICmpEQ(b.CreateLoad(b.getInt32Ty(), status_), b.getInt32(FETTLE_OK)));
  b.CreateCondBr(condition, body, exit);
  BasicBlock* tested = b.GetInsertBlock();
  vb_.open(false, body);
  emit(node.body);
  BasicBlock* latch = b.GetInsertBlock();
  b.CreateBr(header);
  vb_.close(tested);
  loops_.pop_back();
  vb_.close(exit);
  finish_slots(carried, latch, true);
  forget(effects);
}

void FunctionEmitter::emit_if(const IfNode& node) {
  auto& b = vb_.here();
  Value* condition = emit(node.condition);
  if (const auto* constant = dyn_cast<ConstantInt>(condition)) {
    if (constant->isOne())
      emit(node.then_body);
    else if (node.else_body)
      emit(node.else_body);
    return;
  }
  bool likely = false;
  if (const auto* call = node.condition.as<CallNode>()) likely = call->name == "likely";
  BasicBlock* on_true = vb_.new_block();
  BasicBlock* on_false = node.else_body ? vb_.new_block() : nullptr;
  BasicBlock* merge = vb_.new_block();
  BasicBlock* from = b.GetInsertBlock();
  MDNode* weights = likely ? MDBuilder(vb_.context()).createBranchWeights(2000, 1) : nullptr;
  b.CreateCondBr(condition, on_true, on_false ? on_false : merge, weights);

  const std::vector<Value*> before = slot_values_;
  const auto branch = [&](BasicBlock* block, const Stmt& body) {
    b.SetInsertPoint(from);
    slot_values_ = before;
    vb_.open(false, block);
    emit(body);
    BasicBlock* end = b.GetInsertBlock();
    b.CreateBr(merge);
    vb_.close(merge);
    return end;
  };
  BasicBlock* true_end = branch(on_true, node.then_body);
  std::vector<Value*> after_true = slot_values_;
  BasicBlock* false_end = from;
  slot_values_ = before;
  if (on_false) false_end = branch(on_false, node.else_body);
  b.SetInsertPoint(merge);
  merge_slots(after_true, true_end, std::vector<Value*>(slot_values_), false_end);
  // What either branch wrote is not known to be in memory.
  forget(effects_of(node.then_body));
  if (node.else_body) forget(effects_of(node.else_body));
}

}  // namespace fettle::llvm_backend
