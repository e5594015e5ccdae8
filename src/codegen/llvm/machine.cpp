#include "codegen/llvm/machine.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "codegen/llvm/optimize.h"

namespace fettle::llvm_backend {

using namespace llvm;

namespace {

std::string triple_of(const Target& target) { return target.arch + "-unknown-linux-gnu"; }

/// LLVM has some switches only as options of its command line.
void set_option(const char* name, const char* value) {
  auto& options = cl::getRegisteredOptions();
  const auto found = options.find(name);
  if (found != options.end() && found->second->getNumOccurrences() == 0) found->second->addOccurrence(1, name, value);
}

void set_options() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Pointers are in final form (addresses.cpp): LLVM's own loop strength reduction would choose others.
  set_option("disable-lsr", "true");
  // So is the order of instructions. LLVM's scheduler gains nothing over it, and takes quadratic time in long blocks.
  set_option("enable-misched", "false");
  // This pass aborts in LLVM 19 at the size of what was a masked load, and copies alone would gain by it.
  set_option("x86-disable-avoid-SFB", "true");
  set_option("x86-asm-syntax", "intel");
}

void initialize(const Target& target) {
  static std::once_flag once, aarch64;
  if (target.arch == "aarch64")
    std::call_once(aarch64, [] {
      LLVMInitializeAArch64TargetInfo();
      LLVMInitializeAArch64Target();
      LLVMInitializeAArch64TargetMC();
      LLVMInitializeAArch64AsmPrinter();
    });
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  set_options();
}

/// What LLVM needs to make code of one kind for one target. Building the passes takes as long as compiling a short
/// function, so they are built once and run over one module after another, as `llc -compile-twice` does.
class CodeMaker {
 public:
  explicit CodeMaker(std::unique_ptr<TargetMachine> machine) : machine_(std::move(machine)) {}

  TargetMachine& machine() { return *machine_; }

  /// As text where `as_text`, else as an ELF object. False: LLVM has no such code for this target.
  bool run(Module& module, bool as_text, std::vector<uint8_t>& code) {
    std::unique_ptr<Passes>& passes = passes_[as_text];
    if (!passes) {
      auto made = std::make_unique<Passes>();
      const auto kind = as_text ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
      machine_->Options.MCOptions.AsmVerbose = false;
      if (machine_->addPassesToEmitFile(made->manager, made->stream, nullptr, kind, /*DisableVerify=*/true))
        return false;
      passes = std::move(made);
    }
    passes->manager.run(module);
    code.assign(passes->bytes.begin(), passes->bytes.end());
    passes->bytes.clear();
    return true;
  }

 private:
  struct Passes {
    llvm::SmallVector<char, 0> bytes;
    raw_svector_ostream stream{bytes};
    legacy::PassManager manager;
  };

  std::unique_ptr<TargetMachine> machine_;
  std::array<std::unique_ptr<Passes>, 2> passes_;
};

/// One for each target that this thread has compiled for.
Result<CodeMaker*> maker_for(const Target& target) {
  initialize(target);
  static thread_local std::map<std::array<std::string, 3>, std::unique_ptr<CodeMaker>> makers;
  auto& maker = makers[{target.arch, target.cpu, target.features}];
  if (!maker) {
    std::string error;
    const auto* description = TargetRegistry::lookupTarget(triple_of(target), error);
    if (!description) return fail(ErrorCode::E302, error);
    TargetOptions options;
    options.AllowFPOpFusion = FPOpFusion::Standard;
    std::unique_ptr<TargetMachine> machine(description->createTargetMachine(
        triple_of(target), target.cpu, target.features, options, Reloc::PIC_, CodeModel::Small, CodeGenOptLevel::Less));
    if (!machine) return fail(ErrorCode::E302, "LLVM has no machine " + target.cpu);
    maker = std::make_unique<CodeMaker>(std::move(machine));
  }
  return maker.get();
}

}  // namespace

std::shared_mutex& options_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

Result<> set_machine(Module& module, const Target& target) {
  FETTLE_TRY(CodeMaker * maker, maker_for(target));
  module.setTargetTriple(triple_of(target));
  module.setDataLayout(maker->machine().createDataLayout());
  return {};
}

Result<std::vector<uint8_t>> emit_machine_code(Module& module, const Target& target, bool as_text) {
  const std::shared_lock lock(options_mutex());
  FETTLE_TRY(CodeMaker * maker, maker_for(target));
  optimize(module, maker->machine());
  std::vector<uint8_t> code;
  if (!maker->run(module, as_text, code)) return fail(ErrorCode::E302, "LLVM cannot emit code for " + target.cpu);
  return code;
}

}  // namespace fettle::llvm_backend
