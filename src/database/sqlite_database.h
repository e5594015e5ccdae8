#pragma once
// Records in one SQLite file.
//
// Each record is one transaction with a rollback journal. So a killed process loses at most the record that it was
// writing, and several processes may add at once. A copy of the file, which may be read-only, is a whole database.

#include <filesystem>
#include <memory>

#include "database/database.h"

namespace fettle {

struct SqliteOptions {
  bool read_only = false;      // the file must exist, and adding fails (E505)
  int busy_timeout_ms = 5000;  // how long another process's lock is waited for
};

/// Opens the file, or makes it; brings an older schema up to date (a read-only one in memory). Errors: E501 cannot be
/// opened · E502 locked · E503 corrupt, or no Fettle database · E504 of a newer Fettle.
Result<std::unique_ptr<Database>> open_sqlite_database(const std::filesystem::path& path,
                                                       const SqliteOptions& options = {});

}  // namespace fettle
