#pragma once
// The work behind the time that no program for a workload can beat by much: its multiply-adds at the machine's peak.

#include <map>

#include "ir/func.h"

namespace fettle {

/// Floating point operations that every program of the workload has to do that computes it as it is written: 2 for each
/// multiply-add of its contractions, taps in the padding left out. 0 where it has none.
double needed_flops(const Func& workload);

/// Of each buffer that a block only pads: the share of its elements that come from elsewhere.
std::map<const BufferNode*, double> shares_inside(const Func& workload);

}  // namespace fettle
