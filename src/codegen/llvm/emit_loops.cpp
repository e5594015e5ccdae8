// Serial loops, `while` and `if`, with the values of register buffers carried through them.
#include <llvm/IR/MDBuilder.h>

#include "base/check.h"
#include "codegen/llvm/function_emitter.h"
#include "ir/visit.h"

namespace fettle::llvm_backend {

using namespace llvm;

/// What `stmt` may change: slots and buffers, but for those that live inside it.
FunctionEmitter::Effects FunctionEmitter::effects_of(const Stmt& stmt) {
  Effects effects;
  std::unordered_set<const BufferNode*> inside;
  walk(
      stmt,
      [&](const Stmt& s) {
        if (const auto* allocation = s.as<AllocateNode>()) inside.insert(allocation->buffer.get());
        if (const auto* node = s.as<StoreNode>(); node && node->indices.size() == 1) {
          const BufferNode* buffer = node->buffer.get();
          if (inside.count(buffer)) return true;
          if (registers_.has(buffer))
            effects.slots.insert(registers_.find(buffer, node->indices[0], forms_).slot);
          else
            effects.buffers.insert(buffer);
        }
        if (s.kind() == StmtKind::kCallFunc) effects.calls = true;
        if (const auto* loop = s.as<ForNode>(); loop && loop->loop_kind == ForKind::kParallel) effects.calls = true;
        return true;
      },
      [&](const Expr& e) {
        // Whoever is given an address may write there.
        if (const auto* address = e.as<AddressNode>()) effects.buffers.insert(address->buffer.get());
        return true;
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
    carried.push_back({slot, phi, value});
    value = vb_.made_here(phi);
  }
  return carried;
}

/// After the loop (the current block): the values from the last iteration, or, where the loop may be skipped, those from
/// before it. A slot that no iteration reads before it writes is not carried at all.
void FunctionEmitter::finish_slots(const std::vector<SlotPhi>& carried, BasicBlock* latch, BasicBlock* skipped_from) {
  for (const SlotPhi& slot : carried) {
    Value* last = slot_values_[static_cast<size_t>(slot.slot)];
    slot.phi->addIncoming(last, latch);
    Value* after = last;
    if (skipped_from) {
      PHINode* merged = vb_.here().CreatePHI(last->getType(), 2);
      merged->addIncoming(slot.before, skipped_from);
      merged->addIncoming(last, latch);
      after = merged;
    }
    slot_values_[static_cast<size_t>(slot.slot)] = vb_.made_here(after);
    if (slot.phi->use_empty()) vb_.erase(slot.phi);
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
    case BinaryOp::kMin: return provably_positive(binary->a) && provably_positive(binary->b);
    case BinaryOp::kMax: return provably_positive(binary->a) || provably_positive(binary->b);
    default: return false;
  }
}

///   for v in [min, min+extent): S      →     if extent > 0: v = min; do { S; v = v+1 } while (v < min+extent)
void FunctionEmitter::emit_for(const ForNode& node) {
  if (node.loop_kind == ForKind::kParallel) return emit_parallel(node);
  if (node.loop_kind != ForKind::kSerial) {
    fail(ErrorCode::E301, "loop " + node.var->name + " is neither serial nor parallel", Type::getInt32Ty(vb_.context()));
    return;
  }
  if (is_zero(node.extent)) return;
  auto& b = vb_.here();
  Type* i64 = Type::getInt64Ty(vb_.context());
  Value* extent = emit(node.extent);
  if (is_one(node.extent)) {  // once
    vars_[node.var.get()] = emit(node.min);
    forms_.define(node.var.get(), forms_.form(node.min));
    emit(node.body);
    return;
  }
  Value* first = emit(node.min);
  Value* end = vb_.binary(Instruction::Add, first, extent);
  const Effects effects = effects_of(node.body);
  forget(effects);

  BasicBlock* header = vb_.new_block();
  BasicBlock* exit = vb_.new_block();
  BasicBlock* before = b.GetInsertBlock();
  // The block before the loop, in which its constants are computed, is left only into the loop.
  BasicBlock* skipped_from = nullptr;
  if (!provably_positive(node.extent)) {
    Value* runs = vb_.compare(CmpInst::ICMP_SGT, extent, ConstantInt::get(i64, 0));
    BasicBlock* preheader = vb_.new_block();
    b.CreateCondBr(runs, preheader, exit);
    skipped_from = before;
    before = preheader;
    vb_.open(false, preheader);
  }
  b.CreateBr(header);
  vb_.open(true, header);

  PHINode* counter = b.CreatePHI(i64, 2);
  counter->addIncoming(first, before);
  vb_.made_here(counter);
  vars_[node.var.get()] = counter;
  const auto carried = carry_slots(effects, before);

  Loop loop;
  loop.var = node.var.get();
  loop.level = vb_.depth();
  loop.header = header;
  loop.first = forms_.form(node.min);
  loop.has_calls = effects.calls;
  plan_rows(loop, node.body);
  loops_.push_back(std::move(loop));
  emit(node.body);

  BasicBlock* latch = b.GetInsertBlock();
  for (const auto& [key, pointer] : loops_.back().pointers) {
    auto* next = b.CreateGEP(Type::getInt8Ty(vb_.context()), pointer.phi, {pointer.bump_bytes});
    pointer.phi->addIncoming(next, latch);
  }
  loops_.pop_back();
  Value* again;
  if (counter->use_empty()) {
    // Nobody asks for the number: count down, which leaves the flags set.
    counter->setIncomingValue(0, extent);
    Value* next = b.CreateSub(counter, ConstantInt::get(i64, 1));
    counter->addIncoming(next, latch);
    again = b.CreateICmpNE(next, ConstantInt::get(i64, 0));
  } else {
    Value* next = b.CreateAdd(counter, ConstantInt::get(i64, 1), "", true, true);
    counter->addIncoming(next, latch);
    again = b.CreateICmpSLT(next, end);
  }
  b.CreateCondBr(again, header, exit);
  vb_.close(exit);
  if (skipped_from) vb_.close(exit);
  finish_slots(carried, latch, skipped_from);
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
  loops_.push_back(std::move(loop));
  memo_.clear();
  Value* condition = emit(node.condition);
  b.CreateCondBr(condition, body, exit);
  BasicBlock* tested = b.GetInsertBlock();
  std::vector<Value*> at_exit;
  for (const SlotPhi& slot : carried) at_exit.push_back(slot.phi);
  b.SetInsertPoint(tested);
  vb_.open(false, body);
  emit(node.body);
  BasicBlock* latch = b.GetInsertBlock();
  b.CreateBr(header);
  vb_.close(tested);
  loops_.pop_back();
  vb_.close(exit);
  for (const SlotPhi& slot : carried) {
    slot.phi->addIncoming(slot_values_[static_cast<size_t>(slot.slot)], latch);
    slot_values_[static_cast<size_t>(slot.slot)] = vb_.made_here(slot.phi);
  }
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
  for (size_t i = 0; i < slot_values_.size(); ++i) {
    if (slot_values_[i] == after_true[i] || !slot_values_[i] || !after_true[i]) continue;
    PHINode* phi = b.CreatePHI(slot_values_[i]->getType(), 2);
    phi->addIncoming(after_true[i], true_end);
    phi->addIncoming(slot_values_[i], false_end);
    slot_values_[i] = vb_.made_here(phi);
  }
  // What either branch wrote is not known to be in memory.
  forget(effects_of(node.then_body));
  if (node.else_body) forget(effects_of(node.else_body));
}

}  // namespace fettle::llvm_backend
