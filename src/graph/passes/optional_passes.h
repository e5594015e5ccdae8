#pragma once
// Which passes can be left out.

#include "graph/passes/pipeline.h"

namespace fettle {

/// Each once.
PassNames optional_passes();

}  // namespace fettle
