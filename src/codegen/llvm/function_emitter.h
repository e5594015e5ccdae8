#pragma once
// One Func (or the body of one parallel loop) → one LLVM function. The parts:
//   function_emitter.cpp  signatures, statements        emit_loops.cpp    loops, branches, register values through them
//   emit_expr.cpp         arithmetic, casts             emit_access.cpp   loads and stores
//   emit_calls.cpp        functions, intrinsics
//   addresses.cpp         pointers, strength reduction  registers.cpp     which registers there are
#include <llvm/IR/Module.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/llvm/index_form.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/llvm/registers.h"
#include "codegen/llvm/value_builder.h"
#include "ir/func.h"

namespace fettle::llvm_backend {

/// What the functions of one module share while it is emitted.
struct ModuleState {
  const IrModule& ir;
  const Target& target;
  const LlvmOptions& options;
  llvm::Module& module;
  std::set<std::string> needs_context;  // context_users.h
  int parallel_bodies = 0;
  llvm::GlobalVariable* device_code = nullptr;  // LlvmOptions::device_code, once something uses it
  /// The first error; emission goes on with poison after one.
  Diagnostic error;

  void fail_with(ErrorCode code, std::string message) {
    if (error.code == ErrorCode::kNone) error = Diagnostic(code, std::move(message));
  }
  bool is_entry(const std::string& name) const { return name == ir.entry || options.more_entries.count(name) != 0; }
  /// Attributes every generated function has.
  void set_attributes(llvm::Function* function) const;
  llvm::FunctionCallee runtime_function(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> params);
};

/// Linkage name of the body behind the entry's exported wrapper.
std::string body_name(const std::string& func_name);
/// Emits `func` as NAME(ptr…, i64…), with the context first (and a status as its result) where it is needed.
llvm::Function* emit_function(ModuleState& state, const Func& func, const std::string& name, bool exported);
/// Emits the exported wrapper `name` around `body`: int32_t (FettleContext*, void**, const int64_t*).
void emit_entry(ModuleState& state, const Func& func, const std::string& name, llvm::Function* body);

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleState& state, const FuncNode& func, llvm::Function* function, const Stmt& body);

  /// Parameters, before emit_body.
  void bind_buffer(const BufferNode* buffer, llvm::Value* pointer);
  void bind_var(const VarNode* var, llvm::Value* value);
  void set_context(llvm::Value* context, llvm::Value* status) {
    context_ = context;
    status_ = status;
  }
  llvm::Value* make_status();
  /// Around what uses the tile unit: sets it up, and brings back what was there before.
  llvm::Value* begin_tiles();
  void end_tiles(llvm::Value* before);
  ValueBuilder& values() { return vb_; }
  void emit_body();

 private:
  /// Memory that no other memory of the function overlaps.
  struct MemoryBuffer {
    llvm::Value* pointer = nullptr;
    uint64_t state = 0;             // numbers the content: two reads under one number see the same
    llvm::MDNode* scope = nullptr;  // alias scope of its accesses
    std::vector<llvm::Instruction*> accesses;
  };
  /// How the rows of one array, run-time strides apart, share few pointers (addresses.cpp).
  struct RowFamily {
    Monomial stride;
    int64_t first = 0, step = 1;  // multiples of the stride that occur: first + n*step
  };
  struct RowKey {
    const BufferNode* buffer;
    IndexForm slope, rest;  // rest: without constant and without the family's own term
    friend auto operator<=>(const RowKey&, const RowKey&) = default;
  };
  struct PointerPhi {
    llvm::PHINode* phi;
    llvm::Value* bump_bytes;
    size_t number;  // in the order in which the loop's pointers were made: addresses of nodes must not decide on code
  };
  struct PointerKey {
    const BufferNode* buffer;
    IndexForm slope, start;
    friend auto operator<=>(const PointerKey&, const PointerKey&) = default;
  };
  /// An open serial loop; the first stands for the function itself.
  struct Loop {
    const VarNode* var = nullptr;
    int level = 0;
    llvm::BasicBlock* before = nullptr;
    llvm::BasicBlock* header = nullptr;
    IndexForm first;  // of the variable
    bool has_calls = false;
    std::map<std::pair<const BufferNode*, IndexForm>, std::set<Monomial>> row_strides;
    std::map<RowKey, RowFamily> families;
    std::map<PointerKey, PointerPhi> pointers;
  };
  /// What a statement changes.
  struct Effects {
    std::set<int> slots;
    std::set<const BufferNode*> buffers;
    bool calls = false;
  };

  // function_emitter.cpp
  void emit(const Stmt& stmt);
  void emit_store(const StoreNode& node);
  void emit_let(const LetNode& node);
  void emit_allocate(const AllocateNode& node);
  void emit_call(const CallFuncNode& node);
  bool is_host() const;                             // emit_host.cpp
  void emit_kernel_call(const CallFuncNode& node);  // emit_host.cpp
  void emit_reach_stage(const CallFuncNode& node);  // emit_host.cpp
  void emit_mark_step(const CallFuncNode& node);    // emit_host.cpp
  void emit_fetch(const CallFuncNode& node);        // emit_host.cpp
  void emit_put(const CallFuncNode& node);          // emit_host.cpp
  bool is_device_host() const;                      // emit_host.cpp
  void emit_launch(const CallFuncNode& node);       // emit_host.cpp
  llvm::Value* emit_addresses(std::span<const Expr> addresses);
  llvm::Value* emit_integers(std::span<const Expr> integers);
  llvm::Value* emit_host_address(const Expr& address);
  void keep_first_failure(llvm::Value* status);
  void forget_arguments(const CallFuncNode& node);
  void emit_evaluate(const EvaluateNode& node);
  void emit_parallel(const ForNode& node);
  void note_failure(llvm::Value* failed_status);
  Effects effects_of(const Stmt& stmt);
  void forget(const Effects& effects);
  llvm::Value* fail(ErrorCode code, std::string message, llvm::Type* type);

  // emit_loops.cpp
  void emit_for(const ForNode& node);
  void emit_while(const WhileNode& node);
  void emit_if(const IfNode& node);
  bool provably_positive(const Expr& e) const;
  struct SlotPhi {
    int slot;
    llvm::PHINode* phi;
  };
  std::vector<SlotPhi> carry_slots(const Effects& effects, llvm::BasicBlock* from);
  void finish_slots(const std::vector<SlotPhi>& carried, llvm::BasicBlock* latch, bool tests_first);
  void merge_slots(const std::vector<llvm::Value*>& a, llvm::BasicBlock* from_a, const std::vector<llvm::Value*>& b,
                   llvm::BasicBlock* from_b);

  // emit_expr.cpp
  llvm::Value* emit(const Expr& e);
  llvm::Value* emit_uncached(const Expr& e);
  llvm::Value* emit_binary(const BinaryNode& node);
  llvm::Value* emit_float_binary(BinaryOp op, llvm::Value* a, llvm::Value* b, DType type, bool waits = false);
  llvm::Value* emit_chosen_extreme(BinaryOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_int_binary(BinaryOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_plain(BinaryOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_contracted(const BinaryNode& node);
  llvm::Value* emit_lane_compare(const BinaryNode& node);
  llvm::Value* emit_select(const Expr& condition, const Expr& if_true, const Expr& if_false);
  llvm::Value* emit_cast(const CastNode& node);
  llvm::Value* looked_up(const CastNode& node);
  llvm::Value* rounded_integer(const CastNode& node);
  llvm::Value* saturated(llvm::Value* a, DType to);
  llvm::Value* emit_extreme(BinaryOp op, llvm::Value* a, llvm::Value* b, bool waits);
  llvm::Value* emit_ordered_max(llvm::Value* a, llvm::Value* b);
  llvm::Value* with_nan_of(llvm::Value* a, llvm::Value* extreme, bool waits);
  llvm::Value* emit_half_comparison(BinaryOp op, llvm::Value* a, llvm::Value* b, DType type, bool waits);
  llvm::Value* widen(llvm::Value* value, DType type);   // bf16 → f32; others as they are
  llvm::Value* narrow(llvm::Value* value, DType type);  // f32 → bf16
  bool reads_unmasked(const Expr& e) const;
  llvm::Type* type_of(DType type) const;         // as a value
  llvm::Type* memory_type_of(DType type) const;  // as stored
  llvm::Constant* int_constant(DType type, int64_t value) const;

  // emit_calls.cpp
  llvm::Value* emit_math(const CallNode& node);
  llvm::Value* emit_intrinsic(const CallNode& node, bool has_effects);
  llvm::Function* power_function(DType type);

  // emit_access.cpp
  llvm::Value* emit_load(const LoadNode& node);
  int lanes_of_a_register(const BufferNode* buffer) const;
  /// `n` lanes of a vector, from `first` on.
  llvm::Value* part_of(llvm::Value* vector, int first, int n);
  /// Lanes that `mask` excludes are not read; those that `zeros` excludes are zero, others of them anything.
  llvm::Value* load_lanes(const BufferNode* buffer, const Expr& index, llvm::Value* mask, llvm::Value* zeros,
                          llvm::Type* type);
  llvm::Value* load_plain(const BufferNode* buffer, const Expr& index, llvm::Type* type);
  llvm::Value* look_up_bytes(const BufferNode* buffer, const Expr& index, llvm::Value* mask, llvm::Type* type);
  llvm::Value* load_windows(const BufferNode* buffer, const Expr& index, llvm::Value* mask, llvm::Type* type);
  void store_lanes(const BufferNode* buffer, const Expr& index, llvm::Value* value, llvm::Value* mask);
  llvm::Value* memory_mask(const Expr& mask);
  llvm::Value* choice_of_all(const Expr& condition, llvm::Value* around);
  llvm::Value* masked_address(const BufferNode* buffer, const Expr& index);
  llvm::Value* run_time_mask(llvm::Value* mask);
  llvm::Value* gather_pointers(const BufferNode* buffer, const Expr& index);
  llvm::Value* finish_access(llvm::Instruction* access, const BufferNode* buffer);
  llvm::Value* read_register(const RegisterAccess& access);
  void write_register(const RegisterAccess& access, llvm::Value* value);
  void separate_steps(int slot);

  // addresses.cpp
  llvm::Value* address(const BufferNode* buffer, const Expr& index);
  llvm::Value* pointer_at(llvm::Value* base, const IndexForm& form, int64_t element_bytes);
  llvm::Value* bytes_of(const IndexForm& form, int64_t element_bytes);
  llvm::Value* stay_offset(llvm::Value* pointer, llvm::Value* bytes);
  int level_of(const Monomial& monomial);
  int level_of_indeterminate(int indeterminate);
  void split_form(const IndexForm& form, const Loop& loop, bool carried, IndexForm& slope, IndexForm& fixed,
                  IndexForm& moving);
  void plan_rows(Loop& loop, const Stmt& body);
  llvm::Value* start_pointer(Loop& loop, const BufferNode* buffer, const IndexForm& slope, const IndexForm& start);

  MemoryBuffer* memory(const BufferNode* buffer);
  void attach_alias_scopes();
  friend llvm::Function* emit_function(ModuleState&, const Func&, const std::string&, bool);

  ModuleState& state_;
  const FuncNode& func_;
  Stmt body_;
  ValueBuilder vb_;
  bool contract_;
  IndexForms forms_;
  Registers registers_;
  std::vector<llvm::Value*> slot_values_;
  std::unordered_map<const VarNode*, llvm::Value*> vars_;
  std::unordered_map<const VarNode*, int64_t> var_minimum_;
  std::unordered_map<const BufferNode*, MemoryBuffer> buffers_;
  std::unordered_map<const BufferNode*, llvm::Value*> late_buffers_;  // where the addresses of such buffers stand
  std::map<const llvm::Constant*, llvm::Value*> run_time_masks_;
  struct Remembered {
    Expr expr;  // kept alive, so that no other takes its address
    llvm::Value* value;
  };
  std::unordered_map<const ExprNode*, Remembered> memo_;  // within one statement
  std::vector<Loop> loops_;
  bool separate_steps_ = false;       // of the innermost loop: see steps_crowd
  std::set<int> step_slots_;          // that the current step has written
  llvm::Value* lane_mask_ = nullptr;  // vector loads below touch only these lanes
  llvm::Value* any_lane_ = nullptr;   // an i1 that says whether they touch any; null: not known
  llvm::Value* context_ = nullptr;
  llvm::Value* status_ = nullptr;  // pointer to an i32
  uint64_t next_state_ = 1;
};

/// One flat index as base + lane * stride, if it is of that form.
struct LaneIndex {
  Expr base, stride;
  int lanes = 1;
};
bool as_lane_index(const Expr& e, LaneIndex& out);

}  // namespace fettle::llvm_backend
