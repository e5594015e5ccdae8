#pragma once
// Drawing a configuration.

#include <cstdint>
#include <string>

#include "generations/autotvm/template/config_space.h"

namespace fettle {

/// What `decisions` (may be null) says of each knob, the rest drawn from the stream of `name`; one that meets the
/// constraints. Where what is given meets none, as few of its knobs as it takes are drawn again. E238 there is none.
Result<Config> draw_config(const ConfigSpace& space, const DecisionMap* decisions, DecisionSource source,
                           const std::string& name);

}  // namespace fettle
