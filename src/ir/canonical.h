#pragma once
// Programs as bytes, for those who keep many and want to know which are equal.

#include <string>

#include "ir/func.h"

namespace fettle {

/// The program without names: the same bytes for Funcs that are equal under renaming (structural_equal), and for no
/// others. Free variables and buffers go by their names. canonical_hash is their digest.
std::string canonical_bytes(const Func& func);

}  // namespace fettle
