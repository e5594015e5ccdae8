#pragma once
// Finds indices whose lanes are known distances apart, and the memory that the lanes read together.

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <vector>

#include "ir/expr.h"

namespace fettle::llvm_backend {

/// Lane i reads element base + at[i].
struct LaneOffsets {
  Expr base;  // i64 scalar
  llvm::SmallVector<int64_t, 16> at;
};

/// Sums, differences, multiples, quotients and remainders of ramps of constant stride and of scalars; quotients and
/// remainders where that scalar's remainder is known.
///   (broadcast(x*32) + ramp(0, 1, 8)) // broadcast(2)   →   x*32 // 2 + {0, 0, 1, 1, 2, 2, 3, 3}
std::optional<LaneOffsets> lane_offsets(const Expr& index);

/// Runs of elements that hold what the lanes read. All have `size` elements, and none goes beyond the first or the
/// last element that a lane reads, so that each may be read whole.
struct LaneWindows {
  int64_t size = 0;                          // a power of two
  llvm::SmallVector<int64_t, 8> first;       // ascending, from base
  llvm::SmallVector<int, 16> window, place;  // of each lane: which one, and where in it
};

/// As few windows as it takes, of at most `widest` elements (a power of two). Lanes that are off (`on`, null: none is)
/// have window -1.
LaneWindows lane_windows(llvm::ArrayRef<int64_t> offsets, int64_t widest, const std::vector<bool>* on);

}  // namespace fettle::llvm_backend
