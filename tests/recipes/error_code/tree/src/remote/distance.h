#pragma once

#include "base/result.h"

namespace fettle {

/// E806 where a message takes longer than a second.
Result<> check_distance(double seconds);

}  // namespace fettle
