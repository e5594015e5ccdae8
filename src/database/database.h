#pragma once
// Seam: where records live. Implementations: SQLite (sqlite_database.h), memory, and an ordered union of others.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "database/record.h"
#include "database/run.h"

namespace fettle {

class Database {
 public:
  virtual ~Database() = default;

  /// Keeps one record; when it returns, the record survives the end of this process. E502, E503, E505.
  virtual Result<> add(const Record& record) = 0;
  /// Keeps all of them or, on an error, none. E502, E503, E505.
  virtual Result<> add_all(std::span<const Record> records) = 0;

  /// The fastest records of the task, at most k, fastest first. They were measured on this very kind of machine
  /// (fingerprint and features are equal), succeeded, and have not failed since. There is one a trace: its newest that
  /// ran to the end, else its newest. Those that ran to the end come before those raced out. `checked` says whether any
  /// record of the trace was; records of checks alone give no times where there are others. New and old are told by the
  /// order of adding: a clock may jump. E502, E503.
  virtual Result<std::vector<Record>> best(const TaskKey& task, int k) = 0;
  /// All records of the task, oldest first, failed ones too. E502, E503.
  virtual Result<std::vector<Record>> records(const TaskKey& task) = 0;
  /// Whether the task has a record of this trace. E502, E503.
  virtual Result<bool> contains(const TaskKey& task, std::string_view trace) = 0;
  /// Every record, in the order in which they were added, until `visit` fails; its error is returned. E502, E503.
  virtual Result<> for_each(const std::function<Result<>(const Record&)>& visit) = 0;

  /// Keeps a run, in the place of the one with its id if there is one. E502, E503, E505.
  virtual Result<> keep_run(const TuningRun& run) = 0;
  /// All runs, oldest first. E502, E503.
  virtual Result<std::vector<TuningRun>> runs() = 0;

  /// Numbers that were measured once on a machine, such as the micro-kernel table: a list under (machine, key).
  virtual Result<std::optional<std::vector<double>>> fact(std::string_view machine, std::string_view key) = 0;
  virtual Result<> set_fact(std::string_view machine, std::string_view key, std::span<const double> values) = 0;
  /// All facts of the machine whose key begins with `prefix`, by key.
  virtual Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view machine,
                                                                                 std::string_view prefix) = 0;
};

/// The fastest of the task's records whose results are known to be right, if any, and which `fits` accepts (empty:
/// all). E502, E503.
Result<std::optional<Record>> best_checked(Database& database, const TaskKey& task,
                                           const std::function<bool(const Record&)>& fits = {});

/// One line of an overview: a task and what is known of it.
struct TaskSummary {
  TaskKey task;
  std::string machine;
  int64_t n_records = 0;
  int64_t n_failed = 0;
  std::optional<Record> best;  // the fastest that ran to the end
  int64_t last_ns = 0;
};
/// In the order in which the tasks first appear.
Result<std::vector<TaskSummary>> summarize(Database& database);

/// In memory only; nothing fails.
std::unique_ptr<Database> make_memory_database();

/// Reads ask one after another and take the first that has an answer; writes go to the first. for_each visits all.
/// At least one.
std::unique_ptr<Database> make_union_database(std::vector<std::shared_ptr<Database>> databases);

}  // namespace fettle
