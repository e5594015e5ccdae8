#pragma once
// Steps: what a trace did to a program, one step a line, without saying how it was decided.

#include <string>

#include "schedule/trace/trace.h"

namespace fettle::digests {

/// Steps that edit the program, with loops and blocks by their names and decided numbers by their values:
///   split(loop=i, factors=[4, 8], tail="exact") -> i_0, i_1
/// Neither samplings and queries nor addresses are told of: the same steps decided in another way are the same text.
std::string steps_text(const Trace& trace);

}  // namespace fettle::digests
