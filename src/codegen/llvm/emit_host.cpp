// Host programs: Funcs annotated `host`, whose calls are those of whole kernels.

#include "codegen/llvm/function_emitter.h"
#include "ir/annotations.h"
#include "rt/abi.h"

namespace fettle::llvm_backend {

using namespace llvm;

bool FunctionEmitter::is_host() const { return func_.annotations.get_int(kHostKey, 0) != 0; }

///   call k(&x[0], &arena[4096], 7, n)
/// → void* buffers[2] = {x, arena + 4096};  int64_t ints[1] = {n};
///   status = fettle_call_kernel(context, 7, k, buffers, ints)
/// The first integer is the call's number in the model, the others are the kernel's; the first failure is kept.
void FunctionEmitter::emit_kernel_call(const CallFuncNode& node) {
  auto& b = vb_.here();
  size_t n_buffers = 0;
  while (n_buffers < node.args.size() && node.args[n_buffers].as<AddressNode>()) ++n_buffers;
  const int64_t* number = n_buffers < node.args.size() ? as_int(node.args[n_buffers]) : nullptr;
  if (!number) {
    fail(ErrorCode::E301, "call of kernel " + node.name + " has no number", b.getInt32Ty());
    return;
  }
  Type* pointer = b.getPtrTy();
  AllocaInst* buffers = vb_.place_on_stack(ArrayType::get(pointer, n_buffers));
  for (size_t i = 0; i < n_buffers; ++i) {
    Value* address = emit(node.args[i]);
    b.CreateStore(address, b.CreateConstGEP1_64(pointer, buffers, i));
  }
  Value* ints = ConstantPointerNull::get(b.getPtrTy());
  if (const size_t n_ints = node.args.size() - n_buffers - 1; n_ints > 0) {
    ints = vb_.place_on_stack(ArrayType::get(b.getInt64Ty(), n_ints));
    for (size_t i = 0; i < n_ints; ++i)
      b.CreateStore(emit(node.args[n_buffers + 1 + i]), b.CreateConstGEP1_64(b.getInt64Ty(), ints, i));
  }
  FunctionCallee kernel = state_.module.getOrInsertFunction(
      node.name, FunctionType::get(b.getInt32Ty(), {pointer, pointer, pointer}, false));
  const auto run = state_.runtime_function("fettle_call_kernel", b.getInt32Ty(),
                                           {pointer, b.getInt32Ty(), pointer, pointer, pointer});
  Value* status =
      b.CreateCall(run, {context_, b.getInt32(static_cast<uint32_t>(*number)), kernel.getCallee(), buffers, ints});
  Value* before = b.CreateLoad(b.getInt32Ty(), status_);
  note_failure(b.CreateSelect(b.CreateICmpNE(before, b.getInt32(FETTLE_OK)), before, status));
}

}  // namespace fettle::llvm_backend
