#pragma once

#include "harness/core_benchmark.h"

namespace fettle::bench {

/// Fettle as the subject of the core benchmark.
CoreSubject fettle_subject();

}  // namespace fettle::bench
