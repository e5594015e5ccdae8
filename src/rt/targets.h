#pragma once
// Which of a library's targets is taken on this machine.

#include "rt/abi.h"

extern "C" {

/// The first of the model's targets (FettleModelInfo::targets) whose instruction sets are all here; the model itself
/// where it has one alone. wanted: the name of the only one that may be taken; null or "": what $FETTLE_TARGET says,
/// where that is set and not empty, and else any. A model of one target is not asked for its name unless `wanted` is
/// given. Null: there is none, and `why`, ended by a zero and cut to fit, is a clause that says what is missing.
const FettleModelInfo* fettle_pick_target(const FettleModelInfo* info, const char* wanted, char* why,
                                          int32_t why_bytes);

// What a description says of targets; one of an older compiler says less.
/// How many targets its library has beside one another; 0: it was made for one.
int32_t fettle_count_targets(const FettleModelInfo* info);
/// The target's name, or else its processor's.
const char* fettle_target_name(const FettleModelInfo* info);
}
