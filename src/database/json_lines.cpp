#include "database/json_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <tuple>

#include "base/output_file.h"

namespace fettle {
namespace {

/// Visits every record, or, with `best`, of each task the fastest so many.
Result<> visit_records(Database& database, int best, const std::function<Result<>(const Record&)>& visit) {
  if (best <= 0) return database.for_each(visit);
  FETTLE_TRY(const std::vector<TaskSummary> tasks, summarize(database));
  for (const TaskSummary& task : tasks) {
    FETTLE_TRY(const std::vector<Record> records, database.best(task.task, best));
    for (const Record& record : records) FETTLE_TRY_VOID(visit(record));
  }
  return {};
}

}  // namespace

Result<int64_t> export_records(Database& database, const std::filesystem::path& path, int best) {
  FETTLE_TRY(OutputFile file, OutputFile::create(path));
  FETTLE_TRY(const std::vector<TuningRun> runs, database.runs());
  for (const TuningRun& run : runs) FETTLE_TRY_VOID(file.write(to_json_line(run) + '\n'));
  int64_t count = 0;
  FETTLE_TRY_VOID(visit_records(database, best, [&](const Record& record) {
    ++count;
    return file.write(to_json_line(record) + '\n');
  }));
  FETTLE_TRY_VOID(file.commit());
  return count;
}

Result<int64_t> import_records(Database& database, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::E701, std::strerror(errno), path.string());

  using Identity = std::tuple<Digest, Digest, int, std::string, std::string, int64_t>;
  const auto identity = [](const Record& r) {
    return Identity(r.task.workload.hash, r.task.fingerprint, r.task.threads, r.task.versions, r.trace, r.created_ns);
  };
  std::set<Identity> known;
  FETTLE_TRY_VOID(database.for_each([&](const Record& r) -> Result<> {
    known.insert(identity(r));
    return {};
  }));

  std::set<uint64_t> known_runs;
  FETTLE_TRY(const std::vector<TuningRun> runs, database.runs());
  for (const TuningRun& run : runs) known_runs.insert(run.id);

  std::vector<TuningRun> fresh_runs;
  std::vector<Record> fresh;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto refuse = [&](Diagnostic error) {
      error.where = fmt::format("{}, line {}", path.string(), number);
      return fail(std::move(error));
    };
    if (is_run_line(line)) {
      auto run = run_from_json(line);
      if (!run) return refuse(std::move(run.error()));
      if (known_runs.insert(run->id).second) fresh_runs.push_back(std::move(*run));
      continue;
    }
    auto record = record_from_json(line);
    if (!record) return refuse(std::move(record.error()));
    if (known.insert(identity(*record)).second) fresh.push_back(std::move(*record));
  }
  if (file.bad()) return fail(ErrorCode::E701, "reading stopped early", path.string());
  FETTLE_TRY_VOID(database.add_all(fresh));
  for (const TuningRun& run : fresh_runs) FETTLE_TRY_VOID(database.keep_run(run));
  return static_cast<int64_t>(fresh.size());
}

}  // namespace fettle
