#pragma once
// Splits loops whose iterations access memory in several parts, so that each part becomes an iterator of its own.

#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/structure.h"

namespace fettle {

/// Loops that are read as quotient and remainder of one constant (phases_of), but for the one that fills vectors.
///   O[h, w, c] += I[h // 2, w // 2, i] * W[i, c, h % 2, w % 2]
///   →  O[h0*2 + h1, …] += I[h0, w0, i] * W[i, c, h1, w1]
Result<> split_phases(Schedule& s, BlockRef block);

/// The channels of a grouped convolution, at the address "<prefix>/groups": all rows of a group then read the same
/// vectors, and what the lanes of one are multiplied by is one element.
///   O[h, w, o] += I[h + r, w + q, o // 12 * 12 + i] * W[r, q, i, o]
///   →  O[h, w, g*12 + o] += I[h + r, w + q, g*12 + i] * W[r, q, i, g*12 + o]
/// The constructed default leaves groups that are whole vectors as they are, and no others, whose lanes would gather.
/// Where channels are rows (channels first), it always splits: the rows of a group then share vectors of pixels.
Result<> split_groups(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
