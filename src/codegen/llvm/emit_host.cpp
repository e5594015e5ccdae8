// Host programs: Funcs annotated `host`, whose calls are those of whole kernels.

#include "codegen/llvm/function_emitter.h"
#include "ir/annotations.h"
#include "rt/abi.h"

namespace fettle::llvm_backend {

using namespace llvm;

bool FunctionEmitter::is_host() const { return func_.annotations.get_int(kHostKey, 0) != 0; }

///   call k(&x[0], &arena[4096], 7)
/// → void* buffers[2] = {x, arena + 4096};  status = fettle_call_kernel(context, 7, k, buffers, null)
/// The last argument is the call's number in the model; the first failure is kept.
void FunctionEmitter::emit_kernel_call(const CallFuncNode& node) {
  auto& b = vb_.here();
  const int64_t* number = node.args.empty() ? nullptr : as_int(node.args.back());
  if (!number) {
    fail(ErrorCode::E301, "call of kernel " + node.name + " has no number", b.getInt32Ty());
    return;
  }
  Type* pointer = b.getPtrTy();
  const size_t n_buffers = node.args.size() - 1;
  AllocaInst* buffers = vb_.place_on_stack(ArrayType::get(pointer, n_buffers));
  for (size_t i = 0; i < n_buffers; ++i) {
    Value* address = emit(node.args[i]);
    b.CreateStore(address, b.CreateConstGEP1_64(pointer, buffers, i));
  }
  FunctionCallee kernel = state_.module.getOrInsertFunction(
      node.name, FunctionType::get(b.getInt32Ty(), {pointer, pointer, pointer}, false));
  const auto run = state_.runtime_function("fettle_call_kernel", b.getInt32Ty(),
                                           {pointer, b.getInt32Ty(), pointer, pointer, pointer});
  Value* status = b.CreateCall(run, {context_, b.getInt32(static_cast<uint32_t>(*number)), kernel.getCallee(), buffers,
                                     ConstantPointerNull::get(b.getPtrTy())});
  Value* before = b.CreateLoad(b.getInt32Ty(), status_);
  note_failure(b.CreateSelect(b.CreateICmpNE(before, b.getInt32(FETTLE_OK)), before, status));
}

}  // namespace fettle::llvm_backend
