#pragma once
// Lowered loop programs → portable C11.

#include <set>
#include <string>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

struct COptions {
  /// The exported name of the module's entry; empty: the entry Func's own name.
  std::string entry_name;
  /// Other Funcs that are exported as the entry is, under their own names.
  std::set<std::string> more_entries;
  /// Parallel loops run on the context's team. Off: they are serial, and a file whose arrays are small needs no
  /// run-time system.
  bool parallel = true;
};

/// A source file for any C11 compiler on a machine with IEEE floats: it includes standard headers only, and is free of
/// warnings
/// (-Wall -Wextra). It defines
///   - the module's entry (if it names one) as `int32_t NAME(FettleContext *, void **buffers, const int64_t *ints)`,
///   - every other Func that needs no context as `void NAME(T *…, int64_t…)`: buffers, then integers.
/// A CallFunc to a name that is not in the module is a call of such an external function. Of the run-time system
/// (rt/abi.h) it declares what it calls: fettle_parallel_for, or fettle_run_sections in a host program, and
/// fettle_scratch_acquire and _release where an array is larger than 16 KiB or of run-time size. Link with the
/// mathematics library. The program must be lowered to scalar code (Pipeline::kScalar), for a target of kind "c".
/// Errors: E301 a construct that is not lowered, or not known here.
Result<std::string> emit_c(const IrModule& module, const Target& target, const COptions& options = {});

}  // namespace fettle
