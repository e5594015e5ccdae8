// Host programs: Funcs annotated `host`, whose calls are those of whole kernels, and those annotated `device_host`,
// whose calls are launches on a device.

#include "codegen/llvm/function_emitter.h"
#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "rt/abi.h"

namespace fettle::llvm_backend {

using namespace llvm;

bool FunctionEmitter::is_host() const { return func_.annotations.get_int(kHostKey, 0) != 0; }
bool FunctionEmitter::is_device_host() const { return func_.annotations.get_int(kDeviceHostKey, 0) != 0; }

namespace {

/// How many arguments are addresses, which come first.
size_t count_addresses(const CallFuncNode& node) {
  size_t n = 0;
  while (n < node.args.size() && node.args[n].as<AddressNode>()) ++n;
  return n;
}

}  // namespace

/// Of an argument; of a late buffer it is read anew each time.
Value* FunctionEmitter::emit_host_address(const Expr& address) {
  const auto* node = address.as<AddressNode>();
  const auto late = node ? late_buffers_.find(node->buffer.get()) : late_buffers_.end();
  if (late == late_buffers_.end()) return emit(address);
  auto& b = vb_.here();
  Value* base = b.CreateLoad(b.getPtrTy(), late->second);
  Value* offset =
      b.CreateMul(emit(node->indices.front()), b.getInt64(static_cast<uint64_t>(node->buffer->dtype.element_bytes())));
  return b.CreateGEP(b.getInt8Ty(), base, offset);
}

/// An array of them; null where there are none.
Value* FunctionEmitter::emit_integers(std::span<const Expr> integers) {
  auto& b = vb_.here();
  if (integers.empty()) return ConstantPointerNull::get(b.getPtrTy());
  Value* array = vb_.place_on_stack(ArrayType::get(b.getInt64Ty(), integers.size()));
  for (size_t i = 0; i < integers.size(); ++i)
    b.CreateStore(emit(integers[i]), b.CreateConstGEP1_64(b.getInt64Ty(), array, i));
  return array;
}

/// An array of them.
Value* FunctionEmitter::emit_addresses(std::span<const Expr> addresses) {
  auto& b = vb_.here();
  AllocaInst* array = vb_.place_on_stack(ArrayType::get(b.getPtrTy(), addresses.size()));
  for (size_t i = 0; i < addresses.size(); ++i) {
    Value* address = emit_host_address(addresses[i]);
    b.CreateStore(address, b.CreateConstGEP1_64(b.getPtrTy(), array, i));
  }
  return array;
}

void FunctionEmitter::keep_first_failure(Value* status) {
  auto& b = vb_.here();
  Value* before = b.CreateLoad(b.getInt32Ty(), status_);
  note_failure(b.CreateSelect(b.CreateICmpNE(before, b.getInt32(FETTLE_OK)), before, status));
}

///   call k(&x[0], &arena[4096], 7, n)
/// → void* buffers[2] = {x, arena + 4096};  int64_t ints[1] = {n};
///   status = fettle_call_kernel(context, 7, k, buffers, ints)
/// The first integer is the call's number in the model, the others are the kernel's; the first failure is kept.
void FunctionEmitter::emit_kernel_call(const CallFuncNode& node) {
  if (node.name == kReachStage) return emit_reach_stage(node);
  if (node.name == kMarkStep) return emit_mark_step(node);
  if (node.name == kDeviceFetch) return emit_fetch(node);
  if (node.name == kDevicePut) return emit_put(node);
  auto& b = vb_.here();
  const size_t n_buffers = count_addresses(node);
  const int64_t* number = n_buffers < node.args.size() ? as_int(node.args[n_buffers]) : nullptr;
  if (!number) {
    fail(ErrorCode::E301, "call of kernel " + node.name + " has no number", b.getInt32Ty());
    return;
  }
  Type* pointer = b.getPtrTy();
  Value* buffers = emit_addresses(std::span(node.args).first(n_buffers));
  Value* ints = emit_integers(std::span(node.args).subspan(n_buffers + 1));
  FunctionCallee kernel = state_.module.getOrInsertFunction(
      node.name, FunctionType::get(b.getInt32Ty(), {pointer, pointer, pointer}, false));
  // Host functions work on the host's memory.
  const bool comes_here = func_.annotations.get_int(kOnDeviceKey, 0) != 0 && node.name.starts_with(kHostFunctions);
  const auto run = state_.runtime_function(comes_here ? kDeviceCallHost : "fettle_call_kernel", b.getInt32Ty(),
                                           {pointer, b.getInt32Ty(), pointer, pointer, pointer});
  keep_first_failure(
      b.CreateCall(run, {context_, b.getInt32(static_cast<uint32_t>(*number)), kernel.getCallee(), buffers, ints}));
  forget_arguments(node);
}

/// What a call may have written.
void FunctionEmitter::forget_arguments(const CallFuncNode& node) {
  Effects effects;
  for (const Expr& arg : node.args)
    if (const auto* address = arg.as<AddressNode>()) effects.buffers.insert(address->buffer.get());
  forget(effects);
}

///   call fettle_reach_stage(&table[0], 2, n)  →  status = fettle_reach_stage(context, 2, table, ints)
void FunctionEmitter::emit_reach_stage(const CallFuncNode& node) {
  auto& b = vb_.here();
  const int64_t* stage = node.args.size() > 1 ? as_int(node.args[1]) : nullptr;
  if (!stage) {
    fail(ErrorCode::E301, "a stage has no number", b.getInt32Ty());
    return;
  }
  Type* pointer = b.getPtrTy();
  const auto reach = state_.runtime_function(kReachStage, b.getInt32Ty(), {pointer, b.getInt32Ty(), pointer, pointer});
  Value* ints = emit_integers(std::span(node.args).subspan(2));
  keep_first_failure(b.CreateCall(
      reach, {context_, b.getInt32(static_cast<uint32_t>(*stage)), emit_host_address(node.args[0]), ints}));
  forget_arguments(node);
}

///   call fettle_device_fetch(&read[0], &arena[64], 8)  →  status = fettle_device_fetch(context, read, arena + 64, 8)
void FunctionEmitter::emit_fetch(const CallFuncNode& node) {
  auto& b = vb_.here();
  Type* pointer = b.getPtrTy();
  const auto fetch = state_.runtime_function(kDeviceFetch, b.getInt32Ty(), {pointer, pointer, pointer, b.getInt64Ty()});
  Value *to = emit_host_address(node.args[0]), *from = emit_host_address(node.args[1]), *bytes = emit(node.args[2]);
  keep_first_failure(b.CreateCall(fetch, {context_, to, from, bytes}));
  forget_arguments(node);
}

///   call fettle_device_put(&arena[64], i0[0])  →  status = fettle_device_put(context, arena + 64, i0[0])
void FunctionEmitter::emit_put(const CallFuncNode& node) {
  auto& b = vb_.here();
  Type* pointer = b.getPtrTy();
  const auto put = state_.runtime_function(kDevicePut, b.getInt32Ty(), {pointer, pointer, b.getInt64Ty()});
  Value *at = emit_host_address(node.args[0]), *value = emit(node.args[1]);
  keep_first_failure(b.CreateCall(put, {context_, at, value}));
  forget_arguments(node);
}

///   call fettle_device_launch(&x[0], &y[0], 2, gx, gy, gz, n)
/// → void* buffers[2] = {x, y};  int64_t numbers[4] = {gx, gy, gz, n};
///   status = fettle_device_launch(context, code, 2, numbers, buffers, numbers + 3)
/// The first integer is the kernel's number in the code, then come the blocks along x, y and z, then the kernel's own.
void FunctionEmitter::emit_launch(const CallFuncNode& node) {
  auto& b = vb_.here();
  constexpr size_t kGrid = 3;
  const size_t n_buffers = count_addresses(node);
  const int64_t* kernel = node.args.size() > n_buffers + kGrid ? as_int(node.args[n_buffers]) : nullptr;
  if (node.name != kDeviceLaunch || !kernel) {
    fail(ErrorCode::E301, "call of " + node.name + " is no launch", b.getInt32Ty());
    return;
  }
  Type *pointer = b.getPtrTy(), *number = b.getInt32Ty();
  if (!state_.device_code) {
    Constant* bytes = ConstantDataArray::get(vb_.context(), state_.options.device_code);
    state_.device_code =
        new GlobalVariable(state_.module, bytes->getType(), true, GlobalValue::InternalLinkage, bytes, "device_code");
    state_.device_code->setAlignment(Align(64));
  }
  Value* buffers = emit_addresses(std::span(node.args).first(n_buffers));
  Value* numbers = emit_integers(std::span(node.args).subspan(n_buffers + 1));
  const auto launch =
      state_.runtime_function(kDeviceLaunch, number, {pointer, pointer, number, pointer, pointer, pointer});
  keep_first_failure(b.CreateCall(launch, {context_, state_.device_code, b.getInt32(static_cast<uint32_t>(*kernel)),
                                           numbers, buffers, b.CreateConstGEP1_64(b.getInt64Ty(), numbers, kGrid)}));
  forget_arguments(node);
}

///   call fettle_mark_step(2, 1)  →  fettle_mark_step(context, 2, 1)
void FunctionEmitter::emit_mark_step(const CallFuncNode& node) {
  auto& b = vb_.here();
  Type *pointer = b.getPtrTy(), *number = b.getInt32Ty();
  const auto mark = state_.runtime_function(kMarkStep, b.getVoidTy(), {pointer, number, number});
  std::vector<Value*> arguments = {context_};
  for (const Expr& arg : node.args) arguments.push_back(b.CreateTrunc(emit(arg), number));
  b.CreateCall(mark, arguments);
}

}  // namespace fettle::llvm_backend
