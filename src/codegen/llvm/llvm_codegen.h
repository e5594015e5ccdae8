#pragma once
// Turns lowered loop programs into x86-64 or aarch64 machine code, through LLVM 19. No LLVM type appears here.
// What a lowered program is, and how it becomes fast code: README.md.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

struct LlvmOptions {
  /// a*b+c on floats is one rounding (fma). A Func's annotation "contract" (0 or 1) overrides it.
  bool contract = true;
  /// The exported name of the module's entry; empty: the entry Func's own name.
  std::string entry_name;
  /// Other Funcs that are exported as the entry is, under their own names.
  std::set<std::string> more_entries;
  /// Of a Func annotated `device_host`: what its launches are given, as rt/device.h has it (DeviceCode).
  std::vector<uint8_t> device_code = {};
  /// Checks LLVM's form of the program before it is compiled (E302); for tests.
  bool verify = false;
};

/// A relocatable, position-independent ELF object. Exports
///   - the module's entry (if it names one) as `int32_t NAME(FettleContext*, void** buffers, const int64_t* ints)`,
///   - every other Func that needs no context, such as micro-kernels, as `void NAME(void*…, int64_t…)`: buffers, then
///     integers.
/// A CallFunc to a name that is not in the module becomes a call of such an external function.
/// Errors: E301 a construct that is not lowered or not known here · E302 LLVM refused.
Result<std::vector<uint8_t>> compile_object(const IrModule& module, const Target& target,
                                            const LlvmOptions& options = {});
/// The same as assembly text (Intel syntax), for people to read.
Result<std::string> emit_assembly(const IrModule& module, const Target& target, const LlvmOptions& options = {});

}  // namespace fettle
