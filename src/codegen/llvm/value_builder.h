#pragma once
// Builds LLVM instructions in final form: equal pure values are made once, and each is placed in the outermost loop in
// which its operands are known. So no optimisation pass is needed afterwards.

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace fettle::llvm_backend {

/// Scopes nest as the program does: the function is scope 0; the body of each loop, and each branch of an `if`, is one
/// more. Code is built in structured order, so a value made in an open scope dominates all that is built later while it
/// is open.
class ValueBuilder {
 public:
  ValueBuilder(llvm::Function* function, llvm::BasicBlock* entry);

  /// The builder at the current place, for what has effects or must stay here.
  llvm::IRBuilder<>& here() { return builder_; }
  llvm::LLVMContext& context() const { return builder_.getContext(); }
  llvm::Function* function() { return function_; }
  llvm::BasicBlock* new_block() { return llvm::BasicBlock::Create(context(), "", function_); }

  // --- scopes ---
  /// Opens a scope that begins in `block`. The current block must have its terminator already: values that move out of
  /// the new scope are put before it.
  void open(bool is_loop, llvm::BasicBlock* block);
  /// Closes the innermost scope; building goes on in `block`.
  void close(llvm::BasicBlock* block);
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  /// The scope in which `value` becomes known. Constants and arguments: 0.
  int level_of(llvm::Value* value) const;
  /// States that `value`, made through here(), belongs to the current scope.
  llvm::Value* made_here(llvm::Value* value);
  /// … to the open scope `level`.
  void made_at(llvm::Value* value, int level) { levels_[value] = level; }
  /// Removes an instruction without uses.
  void erase(llvm::Instruction* instruction);

  // --- pure values ---
  /// Takes a detached instruction without side effects, and returns an equal value: a constant, one made before, or it
  /// itself, put where its operands are first known: it must not trap there.
  llvm::Value* pure(llvm::Instruction* instruction);
  /// As pure, for reads of memory: `state` numbers the memory's content. It stays where it is.
  llvm::Value* read(llvm::Instruction* instruction, uint64_t state);
  /// The equal value made before, or null; `instruction` is deleted.
  llvm::Value* find(llvm::Instruction* instruction, uint64_t state);

  /// Divisors are neither zero nor, of signed numbers, -1.
  llvm::Value* binary(llvm::Instruction::BinaryOps op, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(llvm::CmpInst::Predicate predicate, llvm::Value* a, llvm::Value* b);
  llvm::Value* cast(llvm::Instruction::CastOps op, llvm::Value* a, llvm::Type* type);
  llvm::Value* select(llvm::Value* condition, llvm::Value* a, llvm::Value* b);
  llvm::Value* splat(llvm::Value* scalar, int lanes);
  llvm::Value* shuffle(llvm::Value* a, llvm::Value* b, llvm::ArrayRef<int> lanes);
  llvm::Value* extract(llvm::Value* vector, int lane);
  llvm::Value* insert(llvm::Value* vector, llvm::Value* scalar, int lane);
  /// A call of an intrinsic that has neither effects nor a dependence on memory.
  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Type*> types, llvm::ArrayRef<llvm::Value*> args);
  /// Memory of the function, made where it begins.
  llvm::AllocaInst* place_on_stack(llvm::Type* type);
  /// pointer + offset bytes
  llvm::Value* byte_offset(llvm::Value* pointer, llvm::Value* offset_bytes);

  /// Runs `build` with the place set to the end of scope `level` (where the next inner scope was entered).
  template <class Build>
  auto at_level(int level, Build build) {
    const Place place(*this, level);
    return build();
  }

 private:
  struct Key {
    llvm::Instruction* instruction;
    uint64_t state;
  };
  struct Scope {
    bool is_loop = false;
    llvm::BasicBlock* entered_from = nullptr;  // the block of the scope around, in which this one was opened
    std::vector<Key> keys;                     // entries of known_ that end with the scope
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct KeyEqual {
    bool operator()(const Key& a, const Key& b) const;
  };
  /// While it lives, the innermost scopes beyond `level` are set aside.
  class Place {
   public:
    Place(ValueBuilder& builder, int level);
    ~Place();

   private:
    ValueBuilder& builder_;
    int before_;
    llvm::IRBuilder<>::InsertPoint point_;
  };

  int place_for(int operands_level) const;
  llvm::Value* number(llvm::Instruction* instruction, uint64_t state, int level);

  llvm::Function* function_;
  llvm::IRBuilder<> builder_;
  const llvm::DataLayout& layout_;
  std::vector<Scope> scopes_;
  int current_ = 0;  // the scope in which is being built; less than depth() within at_level
  llvm::DenseMap<llvm::Value*, int> levels_;
  std::unordered_map<Key, llvm::Value*, KeyHash, KeyEqual> known_;
};

}  // namespace fettle::llvm_backend
