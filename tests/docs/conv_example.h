#pragma once
// The padded convolution of docs/architecture.md.

#include "base/result.h"
#include "ir/func.h"
#include "schedule/schedule.h"

namespace fettle::docs {

/// 3x3 over an image of 28 x 28 pixels with 64 channels, padded by one pixel; 16 channels out.
Func conv_program();
/// The padding inlined, a register tile of 7 pixels by 16 channels, the columns of the window unrolled.
Result<> conv_schedule(Schedule& s);

}  // namespace fettle::docs
