#include "codegen/llvm/forwarder.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/machine.h"

namespace fettle {

Result<std::vector<uint8_t>> compile_forwarder(const std::string& entry, const std::string& function,
                                               std::span<const uint8_t> data, const Target& target) {
  using namespace llvm_backend;
  llvm::LLVMContext context;
  llvm::Module module("fettle", context);
  module.setPICLevel(llvm::PICLevel::SmallPIC);
  FETTLE_TRY_VOID(set_machine(module, target));
  llvm::IRBuilder<> builder(context);
  const auto global = [&](llvm::Constant* value, bool constant, const char* name, uint64_t alignment) {
    auto* made =
        new llvm::GlobalVariable(module, value->getType(), constant, llvm::GlobalValue::InternalLinkage, value, name);
    made->setAlignment(llvm::Align(alignment));
    return made;
  };
  auto* const bytes =
      global(llvm::ConstantDataArray::get(context, llvm::ArrayRef(data.data(), data.size())), true, "data", 64);
  auto* const state = global(builder.getInt64(0), false, "state", 8);
  llvm::Type* const pointer = builder.getPtrTy();
  const auto callee = module.getOrInsertFunction(
      function, llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, pointer, pointer, pointer}, false));
  auto* const made =
      llvm::Function::Create(llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, pointer}, false),
                             llvm::GlobalValue::ExternalLinkage, entry, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", made));
  builder.CreateRet(builder.CreateCall(callee, {made->getArg(0), made->getArg(1), made->getArg(2), bytes, state}));
  return emit_machine_code(module, target, false);
}

}  // namespace fettle
