#pragma once
// Buffers of host programs whose addresses are told while the program runs.

#include <algorithm>
#include <vector>

#include "ir/annotations.h"
#include "ir/func.h"

namespace fettle {

/// Whether the function is given the place where the address of its buffer `param` stands, instead of this address.
inline bool is_late(const FuncNode& func, size_t param) {
  const Attribute* late = func.annotations.find(kLateKey);
  const auto* params = late ? std::get_if<std::vector<int64_t>>(late) : nullptr;
  return params && std::ranges::find(*params, static_cast<int64_t>(param)) != params->end();
}

}  // namespace fettle
