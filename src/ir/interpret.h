#pragma once
// The interpreter: the meaning of a program, scheduled or lowered, run slowly and checked fully.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// The memory of one buffer argument, in the physical layout of the parameter.
struct BufferArg {
  void* data = nullptr;
  int64_t size_bytes = 0;
};

/// Runs `func` (or the module's entry). Arguments in the order of params, then int_params. Every access is checked
/// against its buffer (E103). Loops of every kind run in order; async statements run where they are issued. Arithmetic
/// is done in the operands' types: f32 in single precision, fma with one rounding.
/// steps_left: iterations of loops that it may run, which it counts down (E608); null: any number.
Result<> interpret(const Func& func, std::span<const BufferArg> buffers, std::span<const int64_t> ints = {},
                   int64_t* steps_left = nullptr);
Result<> interpret(const IrModule& module, std::span<const BufferArg> buffers, std::span<const int64_t> ints = {});

}  // namespace fettle
