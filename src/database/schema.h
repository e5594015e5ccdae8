#pragma once
// The tables, as the list of steps that lead from an empty file to today's version.

#include "base/result.h"
#include "database/sqlite.h"

namespace fettle::sqlite {

/// In the file's header: says that it is Fettle's. "Fttl".
inline constexpr int64_t kApplicationId = 0x4674746c;

/// Number of steps, and so today's version (PRAGMA user_version).
int schema_version();

/// Runs the steps from the file's version to `version`, in one transaction. E502, E503, E505.
Result<> migrate(Connection& connection, int version = schema_version());

}  // namespace fettle::sqlite
