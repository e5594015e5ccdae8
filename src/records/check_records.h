#pragma once
// Whether what a database remembers still holds on this machine: recorded schedules are built, run and compared again.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "measure/runner.h"

namespace fettle {

struct CheckRecordsOptions {
  int top = 1;       // of each task, the fastest so many
  std::string task;  // the beginning of a task's hash; empty: all
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> say;
};

/// A record and what came of it now.
struct CheckedRecord {
  Record record;
  MeasureResult now;
};

struct RecordsReport {
  std::vector<CheckedRecord> checked;  // task by task, fastest first
  /// Tasks whose best were left alone: of another kind of machine, of a Fettle that compiled otherwise, or of more
  /// threads than there are here.
  int64_t elsewhere = 0, outdated = 0;
  int64_t wrong = 0;  // of `checked`: not right any more
};

/// Each outcome is kept as a record of a check, so that a schedule found wrong is not used again. What could not be
/// measured (E406) or was not reached (E407) says nothing, and is not kept. Errors: E406 no worker can be started ·
/// E502, E503, E505.
Result<RecordsReport> check_records(Database& database, const CheckRecordsOptions& options);

}  // namespace fettle
