#pragma once
// How a thread computes with floats: rounding, traps, and what becomes of denormal numbers.

#include <stdint.h>

namespace fettle::rt {

/// A thread's control word: MXCSR without the flags of what has happened (x86-64), FPCR (AArch64).
using FloatMode = uint64_t;

#if defined(__x86_64__)

constexpr FloatMode kKeepsDenormals = 0x1f80;                      // to the nearest, nothing traps
constexpr FloatMode kFlushesDenormals = kKeepsDenormals | 0x8040;  // results (FTZ) and operands (DAZ)
constexpr FloatMode kHappened = 0x3f;

inline FloatMode read_float_mode() { return __builtin_ia32_stmxcsr(); }
inline void write_float_mode(FloatMode mode) { __builtin_ia32_ldmxcsr(static_cast<uint32_t>(mode)); }

#elif defined(__aarch64__)

constexpr FloatMode kKeepsDenormals = 0;             // to the nearest, nothing traps
constexpr FloatMode kFlushesDenormals = 1ull << 24;  // FZ; halves have a bit of their own
constexpr FloatMode kHappened = 0;                   // those flags are in another register

inline FloatMode read_float_mode() {
  FloatMode mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void write_float_mode(FloatMode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }

#else
#error "the control word of this processor's floats is not known"
#endif

/// This thread computes so until the end of the scope. Then the whole word is what it was before.
class FloatScope {
 public:
  explicit FloatScope(FloatMode mode) : before_(read_float_mode()) { write_float_mode(mode); }
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;
  ~FloatScope() { write_float_mode(before_); }

 private:
  const FloatMode before_;
};

}  // namespace fettle::rt
