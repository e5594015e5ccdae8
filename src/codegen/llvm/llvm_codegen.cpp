#include "codegen/llvm/llvm_codegen.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/context_users.h"
#include "codegen/llvm/function_emitter.h"
#include "codegen/llvm/machine.h"
#include "lower/passes/vector_math.h"
#include "target/scaling.h"

namespace fettle {
namespace {

using namespace llvm_backend;

struct Emitted {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

Result<Emitted> emit_module(const IrModule& ir, const Target& target, const LlvmOptions& options) {
  Emitted out;
  out.context = std::make_unique<llvm::LLVMContext>();
  out.context->setDiscardValueNames(true);
  out.module = std::make_unique<llvm::Module>("fettle", *out.context);
  out.module->setPICLevel(llvm::PICLevel::SmallPIC);
  FETTLE_TRY_VOID(set_machine(*out.module, target));
  ModuleState state{ir, target, options, *out.module, context_users(ir), 0, nullptr, {}};
  const bool scales = scales_by_powers_of_two(target);
  for (const auto& [name, unexpanded] : ir.funcs) {
    if (!unexpanded || unexpanded->name != name)
      return fail(ErrorCode::E301, "the module lists " + name + " under another name");
    const Func func = expand_vector_math(unexpanded, scales);
    if (state.is_entry(name)) {
      llvm::Function* body = emit_function(state, func, body_name(name), false);
      if (state.error.code == ErrorCode::kNone)
        emit_entry(state, func, name != ir.entry || options.entry_name.empty() ? name : options.entry_name, body);
    } else {
      emit_function(state, func, name, state.needs_context.count(name) == 0);
    }
    if (state.error.code != ErrorCode::kNone) return fail(std::move(state.error));
  }
  if (options.verify) {
    std::string problem;
    llvm::raw_string_ostream text(problem);
    if (llvm::verifyModule(*out.module, &text)) return fail(ErrorCode::E302, text.str());
  }
  return out;
}

}  // namespace

Result<std::vector<uint8_t>> compile_object(const IrModule& module, const Target& target, const LlvmOptions& options) {
  FETTLE_TRY(const Emitted emitted, emit_module(module, target, options));
  return emit_machine_code(*emitted.module, target, false);
}

Result<std::string> emit_assembly(const IrModule& module, const Target& target, const LlvmOptions& options) {
  FETTLE_TRY(const Emitted emitted, emit_module(module, target, options));
  FETTLE_TRY(const std::vector<uint8_t> text, emit_machine_code(*emitted.module, target, true));
  return std::string(text.begin(), text.end());
}

}  // namespace fettle
