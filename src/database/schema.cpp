#include "database/schema.h"

#include <fmt/format.h>

#include <iterator>

namespace fettle::sqlite {
namespace {

// Step i leads from version i to i + 1. Steps that were released are never changed: add another.
constexpr const char* kSteps[] = {
    // 1: workloads and their records
    R"(
    CREATE TABLE workloads (
      id INTEGER PRIMARY KEY,
      hash TEXT NOT NULL,
      text TEXT NOT NULL
    );
    CREATE INDEX workloads_by_hash ON workloads (hash);
    CREATE TABLE records (
      id INTEGER PRIMARY KEY,
      workload INTEGER NOT NULL REFERENCES workloads (id),
      features TEXT NOT NULL,
      fingerprint TEXT NOT NULL,
      threads INTEGER NOT NULL,
      versions TEXT NOT NULL,
      trace TEXT NOT NULL,
      trace_hash TEXT NOT NULL,
      decisions TEXT NOT NULL,
      error TEXT NOT NULL,
      signal INTEGER NOT NULL,
      message TEXT NOT NULL,
      median_s REAL NOT NULL,
      min_s REAL NOT NULL,
      half_width REAL NOT NULL,
      repeats INTEGER NOT NULL,
      machine TEXT NOT NULL,
      created_ns INTEGER NOT NULL,
      seed INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      candidate INTEGER NOT NULL
    );
    CREATE INDEX records_by_task ON records (workload, threads, trace_hash);
    )",
    // 2: timing that stopped early; facts about machines
    R"(
    ALTER TABLE records ADD COLUMN raced_out INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE facts (
      machine TEXT NOT NULL,
      key TEXT NOT NULL,
      numbers BLOB NOT NULL,
      PRIMARY KEY (machine, key)
    ) WITHOUT ROWID;
    )",
    // 3: results that were checked, which confirmations were; workers that were lost
    R"(
    ALTER TABLE records ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE records ADD COLUMN lost_worker INTEGER NOT NULL DEFAULT 0;
    UPDATE records SET checked = 1 WHERE generation = -1 AND error = '';
    )",
    // 4: runs of a tuner, and when in its run a record was made
    R"(
    CREATE TABLE runs (
      id INTEGER PRIMARY KEY,
      model TEXT NOT NULL,
      features TEXT NOT NULL,
      fingerprint TEXT NOT NULL,
      threads INTEGER NOT NULL,
      versions TEXT NOT NULL,
      machine TEXT NOT NULL,
      created_ns INTEGER NOT NULL,
      seed INTEGER NOT NULL,
      seconds REAL NOT NULL,
      untuned_ms REAL NOT NULL,
      tuned_ms REAL NOT NULL,
      kept_untuned INTEGER NOT NULL,
      stopped INTEGER NOT NULL
    );
    CREATE TABLE run_tasks (
      run INTEGER NOT NULL REFERENCES runs (id),
      place INTEGER NOT NULL,
      workload INTEGER NOT NULL REFERENCES workloads (id),
      label TEXT NOT NULL,
      weight REAL NOT NULL,
      calls TEXT NOT NULL,
      PRIMARY KEY (run, place)
    ) WITHOUT ROWID;
    ALTER TABLE records ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE records ADD COLUMN elapsed_s REAL NOT NULL DEFAULT 0;
    )",
    // 5: the machine's pace when a candidate was timed
    R"(
    ALTER TABLE records ADD COLUMN pace REAL NOT NULL DEFAULT 1;
    )",
};

}  // namespace

int schema_version() { return static_cast<int>(std::size(kSteps)); }

Result<> migrate(Connection& connection, int version) {
  FETTLE_TRY(Transaction transaction, Transaction::begin(connection));
  // Another process may have been faster: the version counts only now that the lock is held.
  FETTLE_TRY(const int64_t from, connection.integer("PRAGMA user_version"));
  for (int64_t step = from; step < version; ++step)
    FETTLE_TRY_VOID(connection.execute(kSteps[static_cast<size_t>(step)]));
  if (from < version) {
    FETTLE_TRY_VOID(connection.execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, version).c_str()));
  }
  return transaction.commit();
}

}  // namespace fettle::sqlite
