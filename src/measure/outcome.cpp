#include "measure/outcome.h"

namespace fettle {

void set_outcome(Record& record, const MeasureResult& result) {
  record.error = result.error;
  record.signal = result.signal;
  record.message = result.message;
  record.median_s = result.median_s;
  record.min_s = result.min_s;
  record.half_width = result.half_width;
  record.repeats = result.repeats;
  record.raced_out = result.raced_out;
  record.checked = result.checked;
  record.pace = result.pace;
  record.lost_worker = result.lost_worker;
}

}  // namespace fettle
