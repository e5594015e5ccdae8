#pragma once
// Which instruction sets this processor, and the system on it, offer.

#include <stdint.h>

extern "C" {

/// Checks a list such as "avx2,fma,avx512f" (LLVM's names, optionally with a leading '+'; empty is fine).
/// Returns 0 when all are there; else writes the first that is missing or unknown to `missing` (cut to fit) and returns
/// 1 for missing, 2 for a name not known here. The tile unit ("amx-…") is there where the system permits its use, which
/// is asked for (rt/tiles.h).
int32_t fettle_cpu_check(const char* features, char* missing, int32_t missing_bytes);
}
