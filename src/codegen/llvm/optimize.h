#pragma once
// LLVM's own passes, for loops that no schedule has given their final form.

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace fettle::llvm_backend {

/// States that a function may hold plain loops. `optimize` looks for them there, and nowhere else.
void mark_plain_loops(llvm::Function& function);

/// Runs LLVM's passes over the marked functions that have an innermost loop without a vector in it, if they are not
/// so large that this would take long. Elements that a loop goes on changing stay in registers, sums are taken in
/// lanes, and independent iterations become lanes.
/// Only updates of a sum, x = x + e, may change places. All other arithmetic stays in the order in which it is written.
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace fettle::llvm_backend
