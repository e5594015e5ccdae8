#pragma once
// Records as files of JSON lines: to look at, to merge, to hand on.

#include <filesystem>

#include "database/database.h"

namespace fettle {

/// Writes every run and every record, whole or not at all (base/output_file.h). With `best`, of each task only the
/// fastest so many whose results are right. Returns how many records. E702 · E502, E503.
Result<int64_t> export_records(Database& database, const std::filesystem::path& path, int best = 0);

/// Adds every run, and every record of the file that is not there yet (same task, trace and time of making): all or
/// none. Returns how many were added. E701 unreadable · E506 with the line's number · E502, E503, E505.
Result<int64_t> import_records(Database& database, const std::filesystem::path& path);

}  // namespace fettle
