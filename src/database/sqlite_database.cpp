#include "database/sqlite_database.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "database/fields.h"
#include "database/schema.h"
#include "database/sqlite.h"

namespace fettle {
namespace {

using sqlite::Connection;
using sqlite::Statement;
using sqlite::Transaction;

// A whole check reads the file once; beyond this, damage is found when it is met.
constexpr std::uintmax_t kCheckBytes = 64 << 20;

/// The columns of a kind of row, and places for as many values and one or two more: "a, b", "?1, ?2, ?3".
template <class R>
struct Columns {
  std::string names, places;
  int count = 0;

  explicit Columns(int more) {
    const R row{};
    for_each_field(row, [this](FieldName name, const auto&, auto&&...) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name.column);
      ++count;
    });
    for (int i = 1; i <= count + more; ++i) places += fmt::format("{}?{}", i > 1 ? ", " : "", i);
  }
};
const Columns<Record>& record_columns() {
  static const Columns<Record> columns(2);
  return columns;
}
const Columns<TuningRun>& run_columns() {
  static const Columns<TuningRun> columns(0);
  return columns;
}

/// Binds fields, one after the other.
struct Binder {
  Statement& statement;
  int index;

  template <class T>
  void operator()(FieldName, const T& field, const auto&...) {
    if constexpr (std::is_same_v<T, Digest>)
      statement.bind(index++, field.hex());
    else if constexpr (std::is_same_v<T, ErrorCode>)
      statement.bind(index++, error_name(field));
    else if constexpr (std::is_same_v<T, DecisionMap>)
      statement.bind(index++, decisions_to_json(field));
    else
      statement.bind(index++, field);
  }
};

/// Reads the columns of a row into fields, and remembers the first that holds no such thing.
struct Reader {
  const Statement& row;
  int column = 0;
  std::string problem = {};

  template <class T>
  void operator()(FieldName, T& field, const auto&...) {
    if constexpr (std::is_same_v<T, Digest>)
      take(digest_from_hex(row.text(column++)), field);
    else if constexpr (std::is_same_v<T, ErrorCode>)
      take(error_from_name(row.text(column++)), field);
    else if constexpr (std::is_same_v<T, DecisionMap>)
      take(decisions_from_json(row.text(column++)), field);
    else if constexpr (std::is_integral_v<T>)
      field = static_cast<T>(row.integer(column++));
    else if constexpr (std::is_same_v<T, double>)
      field = row.real(column++);
    else
      field = row.text(column++);
  }
  template <class T>
  void take(Result<T> value, T& field) {
    if (value)
      field = std::move(*value);
    else if (problem.empty())
      problem = value.error().message;
  }
};

/// A row of these columns.
template <class R>
Result<R> read_row(const Statement& row, const std::string& where) {
  R made;
  Reader reader{row};
  for_each_field(made, reader);
  if (!reader.problem.empty()) return fail(ErrorCode::E503, reader.problem, where);
  return made;
}

Result<Workload> workload_of(const std::string& text, const std::string& hash, const std::string& where) {
  const auto digest = digest_from_hex(hash);
  if (!digest) return fail(ErrorCode::E503, "the hash of a workload is damaged", where);
  return Workload{text, *digest};
}

constexpr const char* kOfTask =
    "workload = ?1 AND features = ?2 AND fingerprint = ?3 AND threads = ?4 AND versions = ?5";

std::string hash_of(std::string_view trace) { return digest_bytes(trace).hex(); }

std::vector<double> numbers_from(std::string_view blob) {
  std::vector<double> numbers(blob.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), blob.data(), numbers.size() * sizeof(double));
  return numbers;
}

class SqliteDatabase : public Database {
 public:
  explicit SqliteDatabase(Connection connection) : connection_(std::move(connection)) {}

  Result<> add(const Record& record) override { return add_all({&record, 1}); }

  Result<> add_all(std::span<const Record> records) override {
    if (records.empty()) return {};
    auto status = insert(records);
    if (!status) workloads_.clear();  // it may hold numbers of rows that were rolled back
    return status;
  }

  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    std::string columns = record_columns().names;
    columns.replace(columns.find("checked"), 7, "known_right");
    return query(task, fmt::format("SELECT {0} FROM (SELECT *, row_number() OVER (PARTITION BY trace ORDER BY "
                                   "error <> '', raced_out, generation = {3}, id DESC) AS place, first_value(error) "
                                   "OVER (PARTITION BY trace ORDER BY id DESC) AS last, max(checked) OVER (PARTITION "
                                   "BY trace) AS known_right FROM records WHERE {1}) WHERE place = 1 AND last = '' "
                                   "ORDER BY raced_out, median_s, id LIMIT {2}",
                                   columns, kOfTask, std::max(k, 0), kCheckGeneration));
  }

  Result<std::vector<Record>> records(const TaskKey& task) override {
    return query(task, fmt::format("SELECT {} FROM records WHERE {} ORDER BY id", record_columns().names, kOfTask));
  }

  Result<bool> contains(const TaskKey& task, std::string_view trace) override {
    FETTLE_TRY(const int64_t workload, find_workload(task.workload));
    if (workload == 0) return false;
    FETTLE_TRY(
        Statement s,
        of_task(fmt::format("SELECT 1 FROM records WHERE {} AND trace_hash = ?6 AND trace = ?7 LIMIT 1", kOfTask),
                workload, task, hash_of(trace), trace));
    return s.step();
  }

  Result<> for_each(const std::function<Result<>(const Record&)>& visit) override {
    std::unordered_map<int64_t, Workload> workloads;
    {
      FETTLE_TRY(Statement s, connection_.prepare("SELECT id, hash, text FROM workloads"));
      for (;;) {
        FETTLE_TRY(const bool row, s.step());
        if (!row) break;
        FETTLE_TRY(workloads[s.integer(0)], workload_of(s.text(2), s.text(1), connection_.where()));
      }
    }
    // In pages, so that no lock is held, and nothing else refused, while `visit` works.
    constexpr int64_t kPage = 256;
    const int workload_column = record_columns().count;
    for (int64_t after = 0;;) {
      std::vector<Record> page;
      FETTLE_TRY(Statement s, connection_.prepare(
                                  fmt::format("SELECT {}, workload, id FROM records WHERE id > ?1 ORDER BY id LIMIT {}",
                                              record_columns().names, kPage),
                                  after));
      for (;;) {
        FETTLE_TRY(const bool row, s.step());
        if (!row) break;
        const auto workload = workloads.find(s.integer(workload_column));
        if (workload == workloads.end())
          return fail(ErrorCode::E503, "a record's workload is missing", connection_.where());
        FETTLE_TRY(Record record, read_row<Record>(s, connection_.where()));
        record.task.workload = workload->second;
        page.push_back(std::move(record));
        after = s.integer(workload_column + 1);
      }
      s.reset();
      for (const Record& record : page) FETTLE_TRY_VOID(visit(record));
      if (static_cast<int64_t>(page.size()) < kPage) return {};
    }
  }

  Result<std::optional<std::vector<double>>> fact(std::string_view machine, std::string_view key) override {
    FETTLE_TRY(Statement s,
               connection_.prepare("SELECT numbers FROM facts WHERE machine = ?1 AND key = ?2", machine, key));
    FETTLE_TRY(const bool row, s.step());
    if (!row) return std::nullopt;
    return numbers_from(s.blob(0));
  }

  Result<> set_fact(std::string_view machine, std::string_view key, std::span<const double> values) override {
    return connection_.run("INSERT OR REPLACE INTO facts (machine, key, numbers) VALUES (?1, ?2, ?3)", machine, key,
                           std::as_bytes(values));
  }

  Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view machine,
                                                                         std::string_view prefix) override {
    FETTLE_TRY(Statement s, connection_.prepare("SELECT key, numbers FROM facts WHERE machine = ?1 AND "
                                                "substr(key, 1, length(?2)) = ?2 ORDER BY key",
                                                machine, prefix));
    std::vector<std::pair<std::string, std::vector<double>>> result;
    for (;;) {
      FETTLE_TRY(const bool row, s.step());
      if (!row) return result;
      result.emplace_back(s.text(0), numbers_from(s.blob(1)));
    }
  }

  Result<> keep_run(const TuningRun& run) override {
    auto status = insert_run(run);
    if (!status) workloads_.clear();
    return status;
  }

  Result<std::vector<TuningRun>> runs() override {
    std::vector<TuningRun> runs;
    FETTLE_TRY(Statement s,
               connection_.prepare(fmt::format("SELECT {} FROM runs ORDER BY created_ns, id", run_columns().names)));
    for (;;) {
      FETTLE_TRY(const bool row, s.step());
      if (!row) break;
      FETTLE_TRY(runs.emplace_back(), read_row<TuningRun>(s, connection_.where()));
      FETTLE_TRY(runs.back().tasks, run_tasks(runs.back().id));
    }
    return runs;
  }

 private:
  Result<std::vector<RunTask>> run_tasks(uint64_t run) {
    std::vector<RunTask> tasks;
    FETTLE_TRY(Statement s,
               connection_.prepare("SELECT hash, text, label, weight, calls FROM run_tasks JOIN workloads ON "
                                   "workloads.id = run_tasks.workload WHERE run = ?1 ORDER BY place",
                                   run));
    for (;;) {
      FETTLE_TRY(const bool row, s.step());
      if (!row) return tasks;
      auto calls = calls_from_json(s.text(4));
      if (!calls) return fail(ErrorCode::E503, calls.error().message, connection_.where());
      FETTLE_TRY(Workload workload, workload_of(s.text(1), s.text(0), connection_.where()));
      tasks.push_back({std::move(workload), s.text(2), s.real(3), std::move(*calls)});
    }
  }

  Result<> insert_run(const TuningRun& run) {
    FETTLE_TRY(Transaction transaction, Transaction::begin(connection_));
    {
      FETTLE_TRY(Statement s, connection_.prepare(fmt::format("INSERT OR REPLACE INTO runs ({}) VALUES ({})",
                                                              run_columns().names, run_columns().places)));
      for_each_field(run, Binder{s, 1});
      FETTLE_TRY_VOID(s.run());
      FETTLE_TRY_VOID(connection_.run("DELETE FROM run_tasks WHERE run = ?1", run.id));
      FETTLE_TRY(Statement t, connection_.prepare("INSERT INTO run_tasks (run, place, workload, label, weight, calls) "
                                                  "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
      for (size_t place = 0; place < run.tasks.size(); ++place) {
        const RunTask& task = run.tasks[place];
        FETTLE_TRY(const int64_t workload, find_or_insert(task.workload));
        t.bind_all(run.id, place, workload, task.label, task.weight, calls_to_json(task.calls));
        FETTLE_TRY_VOID(t.run());
      }
    }
    return transaction.commit();
  }

  // The number of the equal workload's row, or 0.
  Result<int64_t> find_workload(const Workload& workload) {
    if (const auto known = workloads_.find(workload.text); known != workloads_.end()) return known->second;
    FETTLE_TRY(Statement s,
               connection_.prepare("SELECT id, text FROM workloads WHERE hash = ?1 ORDER BY id", workload.hash.hex()));
    for (;;) {
      FETTLE_TRY(const bool row, s.step());
      if (!row) return 0;
      if (!same_workload({s.text(1), workload.hash}, workload)) continue;
      workloads_[workload.text] = s.integer(0);
      return s.integer(0);
    }
  }

  Result<std::vector<Record>> query(const TaskKey& task, const std::string& sql) {
    FETTLE_TRY(const int64_t workload, find_workload(task.workload));
    std::vector<Record> result;
    if (workload == 0) return result;
    Workload stored{{}, task.workload.hash};
    {
      FETTLE_TRY(Statement s, connection_.prepare("SELECT text FROM workloads WHERE id = ?1", workload));
      FETTLE_TRY(const bool row, s.step());
      if (!row) return fail(ErrorCode::E503, "a workload has gone", connection_.where());
      stored.text = s.text(0);
    }
    FETTLE_TRY(Statement s, of_task(sql, workload, task));
    for (;;) {
      FETTLE_TRY(const bool row, s.step());
      if (!row) return result;
      FETTLE_TRY(Record record, read_row<Record>(s, connection_.where()));
      record.task.workload = stored;
      result.push_back(std::move(record));
    }
  }

  Result<> insert(std::span<const Record> records) {
    FETTLE_TRY(Transaction transaction, Transaction::begin(connection_));
    {
      FETTLE_TRY(Statement s,
                 connection_.prepare(fmt::format("INSERT INTO records (workload, trace_hash, {}) VALUES ({})",
                                                 record_columns().names, record_columns().places)));
      for (const Record& r : records) {
        FETTLE_TRY(const int64_t workload, find_or_insert(r.task.workload));
        s.bind_all(workload, hash_of(r.trace));
        for_each_field(r, Binder{s, 3});
        FETTLE_TRY_VOID(s.run());
      }
    }
    return transaction.commit();
  }

  Result<int64_t> find_or_insert(const Workload& workload) {
    FETTLE_TRY(const int64_t found, find_workload(workload));
    if (found != 0) return found;
    FETTLE_TRY_VOID(
        connection_.run("INSERT INTO workloads (hash, text) VALUES (?1, ?2)", workload.hash.hex(), workload.text));
    return workloads_[workload.text] = connection_.last_row();
  }

  // kOfTask, and what `more` is for.
  template <class... Values>
  Result<Statement> of_task(const std::string& sql, int64_t workload, const TaskKey& task, const Values&... more) {
    return connection_.prepare(sql, workload, task.target_features, task.fingerprint.hex(), task.threads, task.versions,
                               more...);
  }

  Connection connection_;
  std::unordered_map<std::string, int64_t> workloads_;  // text → row
};

Result<Connection> open_checked(const std::filesystem::path& path, const SqliteOptions& options) {
  std::error_code error;
  const std::filesystem::file_status file = std::filesystem::status(path, error);
  const bool is_file = std::filesystem::is_regular_file(file);
  if (!is_file && std::filesystem::exists(file)) return fail(ErrorCode::E501, "it is no regular file", path.string());
  const std::uintmax_t size_bytes = is_file ? std::filesystem::file_size(path, error) : 0;
  if (options.read_only && !is_file) return fail(ErrorCode::E501, "there is no such file", path.string());

  FETTLE_TRY(
      Connection connection,
      Connection::open(path.string(), options.read_only ? Connection::Mode::kReadOnly : Connection::Mode::kReadWrite,
                       options.busy_timeout_ms));
  // All three of one state: another process may be making the file just now.
  FETTLE_TRY_VOID(connection.execute("BEGIN"));
  FETTLE_TRY(const int64_t tables, connection.integer("SELECT count(*) FROM sqlite_master"));
  FETTLE_TRY(const int64_t application, connection.integer("PRAGMA application_id"));
  FETTLE_TRY(const int64_t version, connection.integer("PRAGMA user_version"));
  FETTLE_TRY_VOID(connection.execute("COMMIT"));
  const bool empty = tables == 0 && application == 0 && version == 0;
  if (!(empty && !options.read_only) && application != sqlite::kApplicationId)
    return fail(ErrorCode::E503, "it is not a database of Fettle", path.string());
  if (version > sqlite::schema_version())
    return fail(ErrorCode::E504,
                fmt::format("its version is {}, this program knows {}", version, sqlite::schema_version()),
                path.string());
  if (size_bytes <= kCheckBytes) {
    FETTLE_TRY(Statement check, connection.prepare("PRAGMA quick_check(1)"));
    FETTLE_TRY(const bool row, check.step());
    if (!row || check.text(0) != "ok")
      return fail(ErrorCode::E503, row ? check.text(0) : "it cannot be checked", path.string());
  }
  if (!options.read_only)
    FETTLE_TRY_VOID(connection.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL"));
  if (version == sqlite::schema_version()) return connection;
  if (!options.read_only) {
    FETTLE_TRY_VOID(sqlite::migrate(connection));
    return connection;
  }
  FETTLE_TRY(Connection copy, Connection::open(path.string(), Connection::Mode::kMemory, options.busy_timeout_ms));
  FETTLE_TRY_VOID(copy.copy_from(connection));
  FETTLE_TRY_VOID(sqlite::migrate(copy));
  FETTLE_TRY_VOID(copy.execute("PRAGMA query_only = 1"));
  return copy;
}

}  // namespace

std::unique_ptr<Database> make_memory_database() {
  auto connection = Connection::open("a database in memory", Connection::Mode::kMemory, 0);
  FETTLE_CHECK(connection && sqlite::migrate(*connection));
  return std::make_unique<SqliteDatabase>(std::move(*connection));
}

Result<std::unique_ptr<Database>> open_sqlite_database(const std::filesystem::path& path,
                                                       const SqliteOptions& options) {
  auto connection = open_checked(path, options);
  if (!connection) {
    Diagnostic& diagnostic = connection.error();
    if (diagnostic.code == ErrorCode::E505) diagnostic.code = ErrorCode::E501;  // nothing was to be recorded yet
    return fail(std::move(diagnostic));
  }
  return std::make_unique<SqliteDatabase>(std::move(*connection));
}

}  // namespace fettle
