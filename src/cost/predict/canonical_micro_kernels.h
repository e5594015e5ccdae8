#pragma once
// The programs by which a machine's micro-kernels and its memory are measured: built as every program is, from a
// tensor expression by schedule steps.

#include "base/result.h"
#include "cost/predict/micro_kernel_table.h"
#include "ir/func.h"

namespace fettle {

/// `repeats` times over `panels` panels of B: C[r, p, i, j] = Σk A[i, k] B[p, k, j] in one tile; in kConflict A[r, i,
/// k], so that each repeat has rows of its own.
struct CanonicalMicroKernel {
  int rows = 14;
  int vectors = 2;
  int64_t depth = 128;  // of k
  int64_t panels = 1;
  int64_t repeats = 16;
  RowMode mode = RowMode::kInPlace;
  int64_t conflict_bytes = 4096;  // distance of rows in kConflict
  int64_t phases = 1;             // of k: from the second on, the tile is added to
  /// C[r, i, p, j], rows as far apart as those of a matrix; all repeats and panels are done with one phase before the
  /// next begins.
  bool far_rows = false;
  /// Calls of the micro-kernel in one run.
  double calls() const { return static_cast<double>(repeats * panels * phases); }
};

/// The scheduled program. E2xx where a tile cannot be built.
Result<Func> canonical_micro_kernel(const CanonicalMicroKernel& micro_kernel, int64_t lanes);

/// B[i] = A[i] for `elems` floats, on vectors, a multiple of 4 · lanes · threads; each thread copies a part.
Result<Func> canonical_copy(int64_t elems, int64_t lanes, int threads = 1);

/// B[j] = Σi A[i, j] for `elems` floats of A, whose rows are kReadVectors vectors: a multiple of so many lanes. It
/// reads, and does little else.
inline constexpr int64_t kReadVectors = 16;
Result<Func> canonical_read(int64_t elems, int64_t lanes);

}  // namespace fettle
