#pragma once
// What came of a candidate, as its record keeps it.

#include "database/record.h"
#include "measure/runner.h"

namespace fettle {

/// The fields of the outcome; task, trace, how and where stay as they are.
void set_outcome(Record& record, const MeasureResult& result);

}  // namespace fettle
