#pragma once
// Scheduled loop programs → streams of instructions.

#include "base/result.h"
#include "codegen/dae/instruction.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle::dae {

struct CodegenOptions {
  /// Instructions wait for what they depend on and signal what depends on them. Off: none does.
  bool tokens = true;
  int64_t max_instructions = int64_t{1} << 20;
};

/// Runs the loops of a program that lower_decoupled made, at compile time, and writes down what they issue: each task
/// becomes one instruction, or several where it has more loops than one instruction. Scratchpad buffers get addresses:
/// one that is live inside of another's life lies behind it, and those that are not live at once may share memory.
/// Errors: E230 scratchpads too small, or a place that is not aligned · E301 a task that no instruction does, too many
/// instructions
Result<Program> emit_stream(const Func& lowered, const Target& target, const CodegenOptions& options = {});

/// verify, lower_decoupled, emit_stream.
Result<Program> compile(const Func& scheduled, const Target& target, const CodegenOptions& options = {});

}  // namespace fettle::dae
