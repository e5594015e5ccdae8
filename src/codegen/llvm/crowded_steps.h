#pragma once
// Tells whether the steps of a register tile, several in one straight piece of code, can share what they read.

#include "codegen/llvm/registers.h"

namespace fettle::llvm_backend {

/// A loop's body that writes each accumulator several times has as many steps, such as the taps of a convolution:
///   c0 += x0*w0; c1 += x1*w0;   c0 += x1*w1; c1 += x2*w1
/// What several steps broadcast (x1) is read once and kept, if the registers hold that beside the accumulators and the
/// vectors of all steps. True where they do not: then each step had better read for itself, since a broadcast is a
/// part of a multiply-add while a register that was spilled is a store and a load.
/// False for what holds loops or a single step.
bool steps_crowd(const Stmt& body, const Registers& registers, IndexForms& forms, int vector_registers);

}  // namespace fettle::llvm_backend
