#include "codegen/llvm/value_builder.h"

#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace fettle::llvm_backend {

using namespace llvm;

ValueBuilder::ValueBuilder(Function* function, BasicBlock* entry)
    : function_(function), builder_(entry), layout_(function->getParent()->getDataLayout()) {
  scopes_.push_back({});
}

// --- scopes ---

void ValueBuilder::open(bool is_loop, BasicBlock* block) {
  FETTLE_CHECK(current_ == depth());
  Scope scope;
  scope.is_loop = is_loop;
  scope.entered_from = builder_.GetInsertBlock();
  FETTLE_CHECK(scope.entered_from->getTerminator() != nullptr);
  scopes_.push_back(std::move(scope));
  ++current_;
  builder_.SetInsertPoint(block);
}

void ValueBuilder::close(BasicBlock* block) {
  FETTLE_CHECK(current_ == depth() && current_ > 0);
  for (const Key& key : scopes_.back().keys) known_.erase(key);
  scopes_.pop_back();
  --current_;
  builder_.SetInsertPoint(block);
}

int ValueBuilder::level_of(Value* value) const {
  if (!isa<Instruction>(value)) return 0;
  const auto found = levels_.find(value);
  FETTLE_CHECK_MSG(found != levels_.end(), "a value was not registered with made_here");
  return found->second;
}

Value* ValueBuilder::made_here(Value* value) {
  if (isa<Instruction>(value)) levels_[value] = current_;
  return value;
}

void ValueBuilder::erase(Instruction* instruction) {
  levels_.erase(instruction);
  instruction->eraseFromParent();
}

ValueBuilder::Place::Place(ValueBuilder& builder, int level)
    : builder_(builder), before_(builder.current_), point_(builder.builder_.saveIP()) {
  FETTLE_CHECK(level <= before_);
  if (level == before_) return;
  builder.current_ = level;
  builder.builder_.SetInsertPoint(builder.scopes_[static_cast<size_t>(level) + 1].entered_from->getTerminator());
}

ValueBuilder::Place::~Place() {
  builder_.current_ = before_;
  builder_.builder_.restoreIP(point_);
}

/// The scope to put a value in whose operands are known in scope `operands_level`: out of every loop that does not
/// change it; but not out of mere branches, which would compute it where it is not needed.
int ValueBuilder::place_for(int operands_level) const {
  for (int level = operands_level; level < current_; ++level) {
    bool leaves_loop = false;
    for (int inner = level + 1; inner <= current_; ++inner) leaves_loop |= scopes_[static_cast<size_t>(inner)].is_loop;
    if (!leaves_loop) return current_;
    return level;
  }
  return current_;
}

// --- value numbering ---

size_t ValueBuilder::KeyHash::operator()(const Key& key) const {
  const Instruction& i = *key.instruction;
  uint64_t h = hash_combine(i.getOpcode(), reinterpret_cast<uintptr_t>(i.getType()));
  h = hash_combine(h, key.state);
  for (const Value* operand : i.operand_values()) h = hash_combine(h, reinterpret_cast<uintptr_t>(operand));
  if (const auto* compare = dyn_cast<CmpInst>(&i)) h = hash_combine(h, compare->getPredicate());
  return h;
}

bool ValueBuilder::KeyEqual::operator()(const Key& a, const Key& b) const {
  return a.state == b.state && a.instruction->isIdenticalTo(b.instruction);
}

Value* ValueBuilder::number(Instruction* instruction, uint64_t state, int level) {
  const Key key{instruction, state};
  if (const auto found = known_.find(key); found != known_.end()) {
    if (level_of(found->second) <= current_) {
      instruction->deleteValue();
      return found->second;
    }
    known_.erase(found);  // made in a scope that is set aside: where building goes on, it may not have been computed
  }
  if (level == current_) {
    builder_.Insert(instruction);
  } else {
    instruction->insertBefore(scopes_[static_cast<size_t>(level) + 1].entered_from->getTerminator());
  }
  levels_[instruction] = level;
  known_.emplace(key, instruction);
  scopes_[static_cast<size_t>(level)].keys.push_back(key);
  return instruction;
}

Value* ValueBuilder::pure(Instruction* instruction) {
  int level = 0;
  bool all_constant = true;
  for (Value* operand : instruction->operand_values()) {
    if (isa<Constant>(operand)) continue;
    all_constant = false;
    level = std::max(level, level_of(operand));
  }
  if (all_constant) {
    if (Constant* folded = ConstantFoldInstruction(instruction, layout_)) {
      instruction->deleteValue();
      return folded;
    }
  }
  return number(instruction, 0, place_for(level));
}

Value* ValueBuilder::read(Instruction* instruction, uint64_t state) { return number(instruction, state, current_); }

Value* ValueBuilder::find(Instruction* instruction, uint64_t state) {
  const auto found = known_.find(Key{instruction, state});
  instruction->deleteValue();
  return found == known_.end() || level_of(found->second) > current_ ? nullptr : found->second;
}

// --- pure values by kind ---

Value* ValueBuilder::binary(Instruction::BinaryOps op, Value* a, Value* b) {
  return pure(BinaryOperator::Create(op, a, b));
}

Value* ValueBuilder::compare(CmpInst::Predicate predicate, Value* a, Value* b) {
  return pure(
      CmpInst::Create(CmpInst::isFPPredicate(predicate) ? Instruction::FCmp : Instruction::ICmp, predicate, a, b));
}

Value* ValueBuilder::cast(Instruction::CastOps op, Value* a, Type* type) {
  return a->getType() == type ? a : pure(CastInst::Create(op, a, type));
}

Value* ValueBuilder::select(Value* condition, Value* a, Value* b) {
  return a == b ? a : pure(SelectInst::Create(condition, a, b));
}

Value* ValueBuilder::splat(Value* scalar, int lanes) {
  if (lanes == 1) return scalar;
  if (auto* constant = dyn_cast<Constant>(scalar))
    return ConstantVector::getSplat(ElementCount::getFixed(static_cast<unsigned>(lanes)), constant);
  auto* none = PoisonValue::get(FixedVectorType::get(scalar->getType(), static_cast<unsigned>(lanes)));
  Value* first = insert(none, scalar, 0);
  return shuffle(first, none, llvm::SmallVector<int, 64>(static_cast<size_t>(lanes), 0));
}

Value* ValueBuilder::shuffle(Value* a, Value* b, ArrayRef<int> lanes) {
  return pure(new ShuffleVectorInst(a, b, lanes));
}

Value* ValueBuilder::extract(Value* vector, int lane) {
  return pure(
      ExtractElementInst::Create(vector, ConstantInt::get(Type::getInt64Ty(context()), static_cast<uint64_t>(lane))));
}

Value* ValueBuilder::insert(Value* vector, Value* scalar, int lane) {
  return pure(InsertElementInst::Create(vector, scalar,
                                        ConstantInt::get(Type::getInt64Ty(context()), static_cast<uint64_t>(lane))));
}

Value* ValueBuilder::intrinsic(Intrinsic::ID id, ArrayRef<Type*> types, ArrayRef<Value*> args) {
  return pure(CallInst::Create(Intrinsic::getDeclaration(function_->getParent(), id, types), args));
}

AllocaInst* ValueBuilder::place_on_stack(Type* type) {
  BasicBlock& entry = function_->getEntryBlock();
  return IRBuilder<>(&entry, entry.begin()).CreateAlloca(type);
}

Value* ValueBuilder::byte_offset(Value* pointer, Value* offset_bytes) {
  if (const auto* constant = dyn_cast<ConstantInt>(offset_bytes); constant && constant->isZero()) return pointer;
  return pure(GetElementPtrInst::Create(Type::getInt8Ty(context()), pointer, {offset_bytes}));
}

}  // namespace fettle::llvm_backend
