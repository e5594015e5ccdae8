#pragma once
// LLVM's machine description and code emission.

#include <llvm/IR/Module.h>

#include <cstdint>
#include <shared_mutex>
#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace fettle::llvm_backend {

/// Prepares `module` (triple, data layout) for `target`. E302.
Result<> set_machine(llvm::Module& module, const Target& target);
/// Machine code of `module`, which is used up: an ELF object, or assembly text. E302.
Result<std::vector<uint8_t>> emit_machine_code(llvm::Module& module, const Target& target, bool as_text);

/// Of LLVM's command-line options, which belong to the whole process: who emits code shares it. lld, which takes the
/// options back each time it links, has it alone.
std::shared_mutex& options_mutex();

}  // namespace fettle::llvm_backend
