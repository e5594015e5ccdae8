#pragma once
// The padded convolution of docs/architecture.md.

#include "base/result.h"
#include "ir/func.h"
#include "schedule/schedule.h"

namespace fettle::docs {

/// 3x3 over a square image, padded by one pixel; 16 channels out.
Func conv_program(int64_t size = 28, int64_t channels = 64);
/// The padding inlined, a register tile of 7 pixels by 16 channels, the columns of the window unrolled.
Result<> conv_schedule(Schedule& s);

}  // namespace fettle::docs
