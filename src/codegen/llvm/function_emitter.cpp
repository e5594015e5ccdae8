#include "codegen/llvm/function_emitter.h"

#include <llvm/IR/MDBuilder.h>

#include "codegen/captures.h"
#include "codegen/context_users.h"
#include "codegen/late_buffers.h"
#include "codegen/llvm/optimize.h"
#include "ir/annotations.h"
#include "ir/fields.h"
#include "rt/abi.h"
#include "target/tensor_intrinsic.h"

namespace fettle::llvm_backend {

using namespace llvm;

// --- module-wide matters ---

void ModuleState::set_attributes(Function* function) const {
  const std::string width = std::to_string(target.vector_bits);
  function->addFnAttr("target-cpu", target.cpu);
  function->addFnAttr("target-features", target.features);
  function->addFnAttr("prefer-vector-width", width);
  function->addFnAttr("min-legal-vector-width", width);
  function->addFnAttr("no-trapping-math", "true");
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->setDSOLocal(true);
}

FunctionCallee ModuleState::runtime_function(const char* name, Type* result, ArrayRef<Type*> params) {
  FunctionCallee callee = module.getOrInsertFunction(name, FunctionType::get(result, params, false));
  cast<Function>(callee.getCallee())->setDoesNotThrow();
  return callee;
}

std::string body_name(const std::string& func_name) { return func_name + ".body"; }

Function* emit_function(ModuleState& state, const Func& func, const std::string& name, bool exported) {
  LLVMContext& c = state.module.getContext();
  Type* pointer = PointerType::get(c, 0);
  const bool needs_context = state.needs_context.count(func->name) != 0;
  llvm::SmallVector<Type*, 16> types;
  if (needs_context) types.push_back(pointer);
  types.append(func->params.size(), pointer);
  types.append(func->int_params.size(), Type::getInt64Ty(c));
  Type* result = needs_context ? Type::getInt32Ty(c) : Type::getVoidTy(c);
  auto* type = FunctionType::get(result, types, false);
  auto* function = cast<Function>(state.module.getOrInsertFunction(name, type).getCallee());
  function->setLinkage(exported ? GlobalValue::ExternalLinkage : GlobalValue::InternalLinkage);
  state.set_attributes(function);
  if (func->annotations.get_int(kInOrderKey, 0) != 0) mark_plain_loops(*function);

  FunctionEmitter emitter(state, *func.get(), function, func->body);
  unsigned at = 0;
  if (needs_context) {
    emitter.set_context(function->getArg(at), emitter.make_status());
    ++at;
  }
  for (unsigned i = 0; i < func->params.size(); ++i, ++at) {
    const BufferNode* buffer = func->params[i].buffer.get();
    function->addParamAttr(at, llvm::Attribute::NonNull);
    if (is_late(*func.get(), i)) {
      emitter.late_buffers_[buffer] = function->getArg(at);
      continue;
    }
    function->addParamAttr(at, llvm::Attribute::NoAlias);
    emitter.bind_buffer(buffer, function->getArg(at));
  }
  for (const IntParam& param : func->int_params) {
    emitter.bind_var(param.var.get(), function->getArg(at++));
    emitter.var_minimum_[param.var.get()] = param.min;
  }
  Value* tiles = func->annotations.get_int(kHoldsTilesKey, 0) != 0 ? emitter.begin_tiles() : nullptr;
  emitter.emit_body();
  if (tiles) emitter.end_tiles(tiles);
  auto& b = emitter.values().here();
  if (needs_context)
    b.CreateRet(b.CreateLoad(Type::getInt32Ty(c), emitter.status_));
  else
    b.CreateRetVoid();
  return function;
}

void emit_entry(ModuleState& state, const Func& func, const std::string& name, Function* body) {
  LLVMContext& c = state.module.getContext();
  Type* pointer = PointerType::get(c, 0);
  Type* i64 = Type::getInt64Ty(c);
  Type* i32 = Type::getInt32Ty(c);
  auto* type = FunctionType::get(i32, {pointer, pointer, pointer}, false);
  auto* function = Function::Create(type, GlobalValue::ExternalLinkage, name, state.module);
  state.set_attributes(function);
  IRBuilder<> b(BasicBlock::Create(c, "", function));
  llvm::SmallVector<Value*, 16> args;
  const bool needs_context = !body->getReturnType()->isVoidTy();
  if (needs_context) args.push_back(function->getArg(0));
  for (unsigned i = 0; i < func->params.size(); ++i) {
    Value* place = b.CreateConstGEP1_64(pointer, function->getArg(1), i);
    args.push_back(is_late(*func.get(), i) ? place : b.CreateLoad(pointer, place));
  }
  for (unsigned i = 0; i < func->int_params.size(); ++i)
    args.push_back(b.CreateLoad(i64, b.CreateConstGEP1_64(i64, function->getArg(2), i)));
  CallInst* call = b.CreateCall(body, args);
  b.CreateRet(needs_context ? static_cast<Value*>(call) : ConstantInt::get(i32, FETTLE_OK));
}

// --- one function ---

FunctionEmitter::FunctionEmitter(ModuleState& state, const FuncNode& func, Function* function, const Stmt& body)
    : state_(state),
      func_(func),
      body_(body),
      vb_(function, BasicBlock::Create(function->getContext(), "", function)),
      contract_(func.annotations.get_int(kContractKey, state.options.contract ? 1 : 0) != 0),
      registers_(body, forms_),
      slot_values_(registers_.slots().size(), nullptr) {}

void FunctionEmitter::bind_buffer(const BufferNode* buffer, Value* pointer) {
  MemoryBuffer& made = buffers_[buffer];
  made.pointer = pointer;
  made.state = ++next_state_;
}

void FunctionEmitter::bind_var(const VarNode* var, Value* value) { vars_[var] = value; }

/// A place for the status, initially FETTLE_OK.
Value* FunctionEmitter::make_status() {
  auto& b = vb_.here();
  Value* place = b.CreateAlloca(Type::getInt32Ty(vb_.context()));
  vb_.made_here(place);
  b.CreateStore(ConstantInt::get(Type::getInt32Ty(vb_.context()), FETTLE_OK), place);
  return place;
}

Value* FunctionEmitter::begin_tiles() {
  auto& b = vb_.here();
  AllocaInst* before = vb_.place_on_stack(ArrayType::get(b.getInt8Ty(), sizeof(FettleTileState)));
  before->setAlignment(Align(64));
  b.CreateCall(state_.runtime_function("fettle_tiles_begin", b.getVoidTy(), {b.getPtrTy()}), {before});
  return before;
}

void FunctionEmitter::end_tiles(Value* before) {
  auto& b = vb_.here();
  b.CreateCall(state_.runtime_function("fettle_tiles_end", b.getVoidTy(), {b.getPtrTy()}), {before});
}

void FunctionEmitter::emit_body() {
  loops_.emplace_back();
  plan_rows(loops_.back(), body_);
  emit(body_);
}

Value* FunctionEmitter::fail(ErrorCode code, std::string message, Type* type) {
  state_.fail_with(code, func_.name + ": " + message);
  return PoisonValue::get(type);
}

void FunctionEmitter::emit(const Stmt& stmt) {
  if (!stmt || state_.error.code != ErrorCode::kNone) return;
  memo_.clear();
  with_node(stmt, Overloaded{
                      [&](const SeqNode& node) {
                        for (const Stmt& s : node.stmts) emit(s);
                      },
                      [&](const ForNode& node) { emit_for(node); },
                      [&](const IfNode& node) { emit_if(node); },
                      [&](const WhileNode& node) { emit_while(node); },
                      [&](const LetNode& node) { emit_let(node); },
                      [&](const StoreNode& node) { emit_store(node); },
                      [&](const AllocateNode& node) { emit_allocate(node); },
                      [&](const CallFuncNode& node) { emit_call(node); },
                      [&](const EvaluateNode& node) { emit_evaluate(node); },
                      [&](const AsyncNode& node) { emit(node.body); },  // done where it is issued
                      [&](const BlockNode& node) {
                        fail(ErrorCode::E301, "block " + node.name + " is not lowered",
                             Type::getInt32Ty(vb_.context()));
                      },
                  });
}

void FunctionEmitter::emit_let(const LetNode& node) {
  vars_[node.var.get()] = emit(node.value);
  if (provably_positive(node.value)) var_minimum_[node.var.get()] = 1;
  emit(node.body);
}

void FunctionEmitter::note_failure(Value* failed_status) { vb_.here().CreateStore(failed_status, status_); }

void FunctionEmitter::emit_allocate(const AllocateNode& node) {
  const BufferNode* buffer = node.buffer.get();
  if (registers_.has(buffer)) {
    for (size_t i = 0; i < slot_values_.size(); ++i) {
      const RegisterSlot& slot = registers_.slots()[i];
      if (slot.buffer == buffer)
        slot_values_[i] = Constant::getNullValue(type_of(buffer->dtype.with_lanes(slot.lanes)));
    }
    return emit(node.body);
  }
  auto& b = vb_.here();
  const bool on_device = is_device_host();
  if (on_stack(*buffer) && !on_device) {
    auto* type = ArrayType::get(Type::getInt8Ty(vb_.context()), static_cast<uint64_t>(constant_bytes(*buffer)));
    AllocaInst* place = vb_.place_on_stack(type);
    place->setAlignment(Align(static_cast<uint64_t>(std::max(buffer->alignment_bytes, 16))));
    vb_.made_at(place, 0);
    bind_buffer(buffer, place);
    return emit(node.body);
  }
  if (buffer->scope == kScopeRegister) {
    fail(ErrorCode::E301, "register buffer " + buffer->name + " is too large or of run-time size", b.getInt32Ty());
    return;
  }
  // A scratch block; where there is none, the body is left out and the failure kept.
  Value* bytes = emit(element_count(*buffer) * Expr(buffer->dtype.element_bytes()));
  const auto acquire = state_.runtime_function(on_device ? "fettle_device_acquire" : "fettle_scratch_acquire",
                                               b.getPtrTy(), {b.getPtrTy(), b.getInt64Ty()});
  const auto release = state_.runtime_function(on_device ? "fettle_device_release" : "fettle_scratch_release",
                                               b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()});
  CallInst* block = b.CreateCall(acquire, {context_, bytes});
  block->addRetAttr(llvm::Attribute::NoAlias);
  vb_.made_here(block);
  BasicBlock* from = b.GetInsertBlock();
  BasicBlock* have = vb_.new_block();
  BasicBlock* none = vb_.new_block();
  BasicBlock* merge = vb_.new_block();
  b.CreateCondBr(b.CreateIsNotNull(block), have, none);
  b.SetInsertPoint(none);
  note_failure(b.getInt32(static_cast<uint32_t>(FETTLE_OUT_OF_MEMORY)));
  b.CreateBr(merge);
  b.SetInsertPoint(from);
  const std::vector<Value*> before = slot_values_;
  vb_.open(false, have);
  bind_buffer(buffer, block);
  emit(node.body);
  b.CreateCall(release, {context_, block});
  BasicBlock* end = b.GetInsertBlock();
  b.CreateBr(merge);
  vb_.close(merge);
  merge_slots(std::vector<Value*>(slot_values_), end, before, none);
  forget(effects_of(node.body));
}

void FunctionEmitter::emit_call(const CallFuncNode& node) {
  if (is_host()) return emit_kernel_call(node);
  if (is_device_host()) return emit_launch(node);
  auto& b = vb_.here();
  const auto callee_ir = state_.ir.funcs.find(node.name);
  const bool needs_context = state_.needs_context.count(node.name) != 0;
  llvm::SmallVector<Type*, 16> types;
  llvm::SmallVector<Value*, 16> args;
  if (needs_context) args.push_back(context_);
  for (const Expr& arg : node.args) args.push_back(emit(arg));
  for (const Value* arg : args) types.push_back(arg->getType());
  if (callee_ir != state_.ir.funcs.end()) {
    const FuncNode& callee = *callee_ir->second.get();
    if (callee.params.size() + callee.int_params.size() != node.args.size()) {
      fail(ErrorCode::E301, "call of " + node.name + " has the wrong number of arguments", b.getInt32Ty());
      return;
    }
  }
  // The entry's own name belongs to its wrapper; nobody inside calls that.
  const std::string symbol = state_.is_entry(node.name) ? body_name(node.name) : node.name;
  Type* result = needs_context ? b.getInt32Ty() : b.getVoidTy();
  FunctionCallee callee = state_.module.getOrInsertFunction(symbol, FunctionType::get(result, types, false));
  auto* function = dyn_cast<Function>(callee.getCallee());
  if (!function || function->getFunctionType() != FunctionType::get(result, types, false)) {
    fail(ErrorCode::E301, "call of " + node.name + " does not match its parameters", b.getInt32Ty());
    return;
  }
  function->setDoesNotThrow();
  function->setDSOLocal(true);
  CallInst* call = b.CreateCall(callee, args);
  forget_arguments(node);
  if (!needs_context) return;
  // status = call failed ? its status : status
  Value* failed = b.CreateICmpNE(call, b.getInt32(FETTLE_OK));
  note_failure(b.CreateSelect(failed, call, b.CreateLoad(b.getInt32Ty(), status_)));
}

void FunctionEmitter::emit_evaluate(const EvaluateNode& node) {
  auto& b = vb_.here();
  const auto* call = node.value.as<CallNode>();
  if (!call) {
    emit(node.value);
    return;
  }
  if (call->name == "prefetch" && !call->args.empty()) {
    // prefetch(address[, locality 0…3])
    const int64_t* locality = call->args.size() > 1 ? as_int(call->args[1]) : nullptr;
    Function* prefetch = Intrinsic::getDeclaration(&state_.module, Intrinsic::prefetch, {b.getPtrTy()});
    b.CreateCall(prefetch, {emit(call->args[0]), b.getInt32(0),
                            b.getInt32(locality ? static_cast<uint32_t>(*locality) : 3), b.getInt32(1)});
    return;
  }
  if (call->name.rfind("llvm.", 0) == 0) {
    emit_intrinsic(*call, true);
    forget(effects_of(evaluate(node.value)));
    return;
  }
  emit(node.value);
}

///   parallel for v in [min, min+extent): S
/// → a function `void body(closure, i)` that does S for v = min + i, and fettle_parallel_for(team, extent, body,
/// closure). The closure holds the context, where to put a failure, and the values and pointers that S uses.
void FunctionEmitter::emit_parallel(const ForNode& node) {
  auto& b = vb_.here();
  LLVMContext& c = vb_.context();
  Value* first = emit(node.min);
  Value* extent = emit(node.extent);

  std::vector<std::pair<const VarNode*, Value*>> values;
  std::vector<const BufferNode*> pointers;
  std::unordered_set<const void*> seen;
  const auto see_buffer = [&](const BufferNode* buffer) {
    if (buffers_.count(buffer) && seen.insert(buffer).second) pointers.push_back(buffer);
  };
  const auto see_var = [&](const VarNode* var) {
    const auto found = vars_.find(var);
    if (found != vars_.end() && var != node.var.get() && seen.insert(var).second)
      values.push_back({var, found->second});
  };
  visit_captures(node.body, see_buffer, see_var);

  // Fields: context, status, first; then values; then pointers.
  llvm::SmallVector<Value*, 16> fields{context_, status_, first};
  for (const auto& [var, value] : values) fields.push_back(value);
  for (const BufferNode* buffer : pointers) fields.push_back(buffers_[buffer].pointer);
  llvm::SmallVector<Type*, 16> types;
  for (Value* field : fields) types.push_back(field->getType());
  auto* closure_type = StructType::get(c, types);

  AllocaInst* closure = vb_.place_on_stack(closure_type);
  for (unsigned i = 0; i < fields.size(); ++i) b.CreateStore(fields[i], b.CreateStructGEP(closure_type, closure, i));

  auto* body_type = FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
  auto* body = Function::Create(body_type, GlobalValue::InternalLinkage,
                                func_.name + ".parallel" + std::to_string(state_.parallel_bodies++), state_.module);
  state_.set_attributes(body);
  if (func_.annotations.get_int(kInOrderKey, 0) != 0) mark_plain_loops(*body);
  body->addParamAttr(0, llvm::Attribute::NoAlias);
  FunctionEmitter inner(state_, func_, body, node.body);
  auto& ib = inner.vb_.here();
  llvm::SmallVector<Value*, 16> inside;
  for (unsigned i = 0; i < fields.size(); ++i) {
    // Constants need no field; the store above is dead then, and cheap.
    Value* field = isa<Constant>(fields[i]) && !isa<GlobalValue>(fields[i])
                       ? fields[i]
                       : ib.CreateLoad(types[i], ib.CreateStructGEP(closure_type, body->getArg(0), i));
    inside.push_back(inner.vb_.made_here(field));
  }
  inner.set_context(inside[0], inside[1]);
  unsigned at = 3;
  for (const auto& [var, value] : values) {
    inner.bind_var(var, inside[at++]);
    if (const auto* constant = dyn_cast<ConstantInt>(value); constant && var->dtype == kI64) {
      IndexForm form;
      form.constant = constant->getSExtValue();
      inner.forms_.define(var, form);
    }
    if (const auto found = var_minimum_.find(var); found != var_minimum_.end()) inner.var_minimum_[var] = found->second;
  }
  for (const BufferNode* buffer : pointers) inner.bind_buffer(buffer, inside[at++]);
  inner.bind_var(node.var.get(), inner.vb_.binary(Instruction::Add, inside[2], body->getArg(1)));
  Value* tiles = node.annotations.get_int(kHoldsTilesKey, 0) != 0 ? inner.begin_tiles() : nullptr;
  inner.emit_body();
  if (tiles) inner.end_tiles(tiles);
  inner.vb_.here().CreateRetVoid();
  inner.attach_alias_scopes();

  // A host program's are its sections, which the context runs; others are given to FettleContext::team.
  const auto run = state_.runtime_function(is_host() ? "fettle_run_sections" : "fettle_parallel_for", b.getVoidTy(),
                                           {b.getPtrTy(), b.getInt64Ty(), b.getPtrTy(), b.getPtrTy()});
  Value* runner = is_host() ? context_ : b.CreateLoad(b.getPtrTy(), context_);
  b.CreateCall(run, {runner, extent, body, closure});
  forget(effects_of(node.body));
}

/// States that accesses of different buffers do not overlap, where the pointers' own attributes do not say so.
void FunctionEmitter::attach_alias_scopes() {
  if (buffers_.size() < 2) return;
  MDBuilder metadata(vb_.context());
  MDNode* domain = metadata.createAnonymousAliasScopeDomain();
  for (auto& [buffer, memory] : buffers_) memory.scope = metadata.createAnonymousAliasScope(domain);
  for (auto& [buffer, memory] : buffers_) {
    llvm::SmallVector<Metadata*, 8> others;
    for (auto& [other, its] : buffers_)
      if (other != buffer) others.push_back(its.scope);
    MDNode* own = MDNode::get(vb_.context(), {memory.scope});
    MDNode* rest = MDNode::get(vb_.context(), others);
    for (Instruction* access : memory.accesses) {
      access->setMetadata(LLVMContext::MD_alias_scope, own);
      access->setMetadata(LLVMContext::MD_noalias, rest);
    }
  }
}

}  // namespace fettle::llvm_backend
