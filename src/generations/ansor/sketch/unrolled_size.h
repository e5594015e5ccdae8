#pragma once
// Estimates how much code a schedule unrolls.

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

struct UnrolledSizeOptions {
  int64_t most = 2048;         // statements that unrolling makes of one block, vectors counting as one
  int64_t most_guarded = 256;  // where each is guarded, or selects between values
};

/// Programs that would be mostly code take seconds to compile and are slow, since no cache holds their instructions:
/// they are refused before that. Errors: E230, naming the block and its statements
Result<> verify_unrolled_size(const Func& func, const UnrolledSizeOptions& options = {});

}  // namespace fettle
