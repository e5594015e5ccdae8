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

#include "codegen/llvm/optimize.h"

namespace fettle::llvm_backend {

using namespace llvm;

namespace {

std::string triple_of(const Target& target) { return target.arch + "-unknown-linux-gnu"; }

/// LLVM has some switches only as options of its command line. lld, which is in the same process, takes them back each
/// time it links.
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

/// One TargetMachine for each target that this thread has compiled for.
Result<TargetMachine*> machine_for(const Target& target) {
  initialize(target);
  static thread_local std::map<std::array<std::string, 3>, std::unique_ptr<TargetMachine>> machines;
  auto& machine = machines[{target.arch, target.cpu, target.features}];
  if (!machine) {
    std::string error;
    const auto* description = TargetRegistry::lookupTarget(triple_of(target), error);
    if (!description) return fail(ErrorCode::E302, error);
    TargetOptions options;
    options.AllowFPOpFusion = FPOpFusion::Standard;
    machine.reset(description->createTargetMachine(triple_of(target), target.cpu, target.features, options, Reloc::PIC_,
                                                   CodeModel::Small, CodeGenOptLevel::Less));
    if (!machine) return fail(ErrorCode::E302, "LLVM has no machine " + target.cpu);
  }
  return machine.get();
}

}  // namespace

Result<> set_machine(Module& module, const Target& target) {
  FETTLE_TRY(TargetMachine * machine, machine_for(target));
  module.setTargetTriple(triple_of(target));
  module.setDataLayout(machine->createDataLayout());
  return {};
}

Result<std::vector<uint8_t>> emit_machine_code(Module& module, const Target& target, bool as_text) {
  FETTLE_TRY(TargetMachine * machine, machine_for(target));
  optimize(module, *machine);
  llvm::SmallVector<char, 0> bytes;
  raw_svector_ostream out(bytes);
  legacy::PassManager passes;
  const auto kind = as_text ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
  machine->Options.MCOptions.AsmVerbose = false;
  if (machine->addPassesToEmitFile(passes, out, nullptr, kind, /*DisableVerify=*/true))
    return fail(ErrorCode::E302, "LLVM cannot emit code for " + target.cpu);
  passes.run(module);
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

}  // namespace fettle::llvm_backend
