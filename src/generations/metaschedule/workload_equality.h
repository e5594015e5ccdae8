#pragma once
// Decides when two workloads count as one, so that a record of one serves the other.

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "database/database.h"
#include "ir/func.h"

namespace fettle {

enum class WorkloadEquality : uint8_t {
  kStructural,       // the same program, up to names
  kIgnoreConstants,  // … and up to the values of floating-point constants, and whether a parameter is constant
  kAnchorBlock,      // the same block that does most of the work, whatever is done before and after it
};
/// As users name them: "structural", "ignore-constants", "anchor-block", in the order of the enumeration.
std::span<const std::string_view> workload_equality_names();
/// Nothing: there is none of this name.
std::optional<WorkloadEquality> find_workload_equality(std::string_view name);

/// The part of a program that a mode compares. kAnchorBlock: the reduction with most points (where there is none, the
/// block with most) as a program of its own, what it reads being inputs; the whole program where it shares its nest
/// with others.
Func compared_part(const Func& func, WorkloadEquality mode);
/// Hashes of what is compared, then the programs themselves: a hash alone proves nothing.
bool equal_workloads(const Func& a, const Func& b, WorkloadEquality mode);

/// As `database`, but questions about a task are answered by the records of all tasks of the same target whose
/// workloads count as equal. For kAnchorBlock best() carries their schedules over (anchor_trace.h), with the times that
/// they have there. Schedules that cannot be carried over are left out. records() are as they were measured.
std::unique_ptr<Database> make_equality_database(std::shared_ptr<Database> database, WorkloadEquality mode);

}  // namespace fettle
