#pragma once
// Inlines blocks into those that read them, or into those that they read.

#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// Computes a block where it is read. False: that is refused, and nothing has changed.
bool try_inline(Schedule& s, const std::string& block);
/// Computes a block where what it reads is written. False: as above.
bool try_inline_into_producer(Schedule& s, const std::string& block);

/// What is done element by element with what `block` writes becomes part of it: reader after reader, while there is
/// one.
///   C = T; D = C + bias; E = max(D, 0)   →   E = max(T + bias, 0)
void inline_consumers(Schedule& s, BlockRef block);

/// What is computed element by element before `block`, paddings too, becomes part of what reads it, where that is
/// legal.
void inline_producers(Schedule& s, const std::string& block);

}  // namespace fettle
