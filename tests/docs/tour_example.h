#pragma once
// The matrix product of docs/tour.md. The page quotes the marked parts of tour_example.cpp.

#include "base/result.h"
#include "ir/func.h"
#include "schedule/schedule.h"

namespace fettle::docs {

/// C = A B: A is 197 x 768, B a constant of 768 x 768, as in the attention blocks of ViT-B/16.
Func tour_program();
/// The same for other extents.
Func tour_program(int64_t m, int64_t n, int64_t k);
/// Panels of B, a register tile of rows x 2 vectors, rows in balanced tiles, panels in parallel.
Result<> tour_schedule(Schedule& s, int64_t rows = 4);

}  // namespace fettle::docs
