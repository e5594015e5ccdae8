#pragma once
// Between the structures of `measure` and those of proto/devices.proto; what comes from outside is looked at here.

#include <string>
#include <string_view>

#include "devices.pb.h"
#include "measure/runner.h"
#include "remote/limits.h"

namespace fettle {

wire::Outcome to_wire(const MeasureResult& result);
/// A code that is not known here becomes E406. Not called for workload_refused.
MeasureResult from_wire(const wire::Outcome& outcome);

wire::Measure to_wire(const MeasureRequest& request);
/// Without its functions.
MeasureRequest from_wire(const wire::Measure& measure);

/// Letters, digits, '.', '_', '-' and '+', 1 to 64 of them: a device key such as "zen4-2c".
bool is_key(std::string_view text);
/// A random name of a device, a session or a lease: 32 hexadecimal digits.
std::string draw_name();
bool is_drawn_name(std::string_view text);

/// A workload's name, which says what it is.
std::string workload_name(const wire::Workload& workload);

/// E803: what is not of the right form or beyond a limit. Times must be numbers, not negative, and not endless.
Result<> check(const wire::Machine& machine, const TrackerLimits& limits);
Result<> check(const wire::Measure& measure, const TrackerLimits& limits);
Result<> check(const wire::Workload& workload, const TrackerLimits& limits);
Result<> check(const wire::Job& job, const TrackerLimits& limits);
Result<> check(const wire::Outcome& outcome);

}  // namespace fettle
