#pragma once
// What a ratio of two times says, in a sentence.

#include <string>

#include "harness/statistics.h"

namespace fettle::bench {

/// `ratio`: the tuned model's time over the untuned one's, by rounds. "tuned over untuned: 0.93 of its time, +- 1 %: …"
/// Nothing is claimed that the interval does not show.
std::string tuning_verdict(const Estimate& ratio);

}  // namespace fettle::bench
