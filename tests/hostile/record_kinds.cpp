// Databases of records, and files of them.

#include <sqlite3.h>

#include <array>

#include "base/random.h"
#include "database/json_lines.h"
#include "database/sqlite_database.h"
#include "hostile/kinds.h"

namespace fettle::hostile {
namespace {

namespace fs = std::filesystem;

void execute(const fs::path& path, const std::string& sql) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) == SQLITE_OK) sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  sqlite3_close(db);
}

Result<> read_records(const fs::path& path) {
  FETTLE_TRY(const auto database, open_sqlite_database(path, {.read_only = true}));
  FETTLE_TRY_VOID(database->for_each([](const Record&) { return Result<>(); }));
  FETTLE_TRY(const auto runs, database->runs());
  FETTLE_TRY(const auto tasks, summarize(*database));
  return {};
}

/// A database that `spoil` has changed.
Kind database_kind(std::string name, std::function<void(const fs::path& path, int variant)> spoil, int variants = 3) {
  return {std::move(name), variants, [spoil = std::move(spoil)](int variant, const fs::path& folder) -> Result<> {
            const fs::path path = folder / "records.db";
            FETTLE_TRY(auto database, open_sqlite_database(path));
            database.reset();
            spoil(path, variant);
            return read_records(path);
          }};
}

Kind lines_kind(std::string name, std::vector<std::string> files) {
  const int variants = static_cast<int>(files.size());
  return {std::move(name), variants, [files = std::move(files)](int variant, const fs::path& folder) -> Result<> {
            write(folder / "records.jsonl", files[static_cast<size_t>(variant)]);
            const auto database = make_memory_database();
            FETTLE_TRY_VOID(import_records(*database, folder / "records.jsonl"));
            return {};
          }};
}

}  // namespace

std::vector<Kind> record_kinds() {
  return {
      database_kind("a database that is none",
                    [](const fs::path& path, int v) {
                      write(path,
                            std::array<std::string, 3>{"x", std::string(8192, 'x'),
                                                       std::string("SQLite format 3\0", 16)}[static_cast<size_t>(v)]);
                    }),
      database_kind("a database of another program",
                    [](const fs::path& path, int v) {
                      fs::remove(path);
                      execute(path, std::array<const char*, 3>{
                                        "CREATE TABLE t(a)", "PRAGMA user_version = 3; CREATE TABLE records(a)",
                                        "PRAGMA application_id = 1; CREATE TABLE t(a)"}[static_cast<size_t>(v)]);
                    }),
      database_kind("a database of a newer Fettle",
                    [](const fs::path& path, int v) {
                      execute(path, "PRAGMA user_version = " +
                                        std::array<std::string, 3>{"1000", "2147483647", "-5"}[static_cast<size_t>(v)]);
                    }),
      database_kind("a database with pages of noise",
                    [](const fs::path& path, int v) {
                      const auto size = static_cast<size_t>(fs::file_size(path));
                      RandomStream random{static_cast<uint64_t>(v)};
                      std::string bytes(size, '\0');
                      for (char& c : bytes) c = static_cast<char>(random.below(256));
                      sqlite3* db = nullptr;
                      sqlite3_open(path.c_str(), &db);
                      sqlite3_close(db);
                      std::string head("SQLite format 3\0", 16);
                      write(path, head + bytes.substr(16));
                    }),
      database_kind("a database without its tables",
                    [](const fs::path& path, int v) {
                      execute(path, std::array<const char*, 3>{
                                        "DROP TABLE records", "DROP TABLE runs",
                                        "DROP TABLE workloads; DROP TABLE tasks"}[static_cast<size_t>(v)]);
                    }),
      lines_kind("records that are no JSON", {"x\n", "{\n", std::string(100'000, '[') + "\n", std::string(4096, '\0')}),
      lines_kind("records without fields", {"{}\n", "[]\n", "{\"task\": 1}\n", "null\n"}),
      lines_kind("records with wrong fields", {"{\"workload\": \"x\", \"target\": 3, \"trace\": []}\n",
                                               "{\"run\": {}}\n", "{\"run\": {\"id\": -1}}\n"}),
  };
}

}  // namespace fettle::hostile
