#include "database/sqlite_database.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "database/schema.h"
#include "database/test_util.h"

namespace fettle {
namespace {

using sqlite::Connection;
using testing::TempFolder;

Result<std::unique_ptr<Database>> open(const std::filesystem::path& path, bool read_only = false) {
  return open_sqlite_database(path, {.read_only = read_only, .busy_timeout_ms = 100});
}

int64_t count(Database& db) {
  int64_t n = 0;
  const auto status = db.for_each([&](const Record&) -> Result<> { return ++n, Result<>(); });
  EXPECT_TRUE(status) << status.error().to_string();
  return n;
}

void make_with(const std::filesystem::path& path, int records) {
  auto db = open(path);
  ASSERT_TRUE(db) << db.error().to_string();
  for (int i = 0; i < records; ++i) ASSERT_TRUE((*db)->add(testing::record(10, "t" + std::to_string(i), 1e-3)));
}

/// Runs `body` in a child; returns its wait status.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Sqlite, RecordsOutliveTheProcess) {
  TempFolder folder;
  make_with(folder.path / "r.db", 3);
  auto db = open(folder.path / "r.db");
  ASSERT_TRUE(db);
  EXPECT_EQ(count(**db), 3);
  EXPECT_TRUE(*(*db)->contains(testing::task(10), "t2"));
}

TEST(Sqlite, AKilledWriterLosesNothingThatItFinished) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  int64_t finished = 0;
  for (int round = 0; round < 4; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe_ends[0]);
      auto db = open_sqlite_database(path);
      if (!db) ::_exit(1);
      for (int i = 0;; ++i) {
        if (!(*db)->add(testing::record(10, fmt::format("{}/{}", round, i), 1e-3))) ::_exit(2);
        const char done = '.';
        if (::write(pipe_ends[1], &done, 1) != 1) ::_exit(3);
      }
    }
    ::close(pipe_ends[1]);
    int64_t seen = 0;
    char done;
    while (seen < 5 + round && ::read(pipe_ends[0], &done, 1) == 1) ++seen;
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &done, 1) == 1) ++seen;
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    finished += seen;
    auto db = open(path);
    ASSERT_TRUE(db) << db.error().to_string();
    const int64_t found = count(**db);
    EXPECT_GE(found, finished);
    EXPECT_LE(found, finished + 1) << "only the record being written may be there beyond those reported";
    finished = found;
  }
}

TEST(Sqlite, AKillInTheMiddleOfATransactionIsUndone) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  make_with(path, 3);
  const int status = in_child([&] {
    // A cache of one page makes SQLite write into the file before the commit.
    auto connection = Connection::open(path.string(), Connection::Mode::kReadWrite, 1000);
    if (!connection || !connection->execute("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM records;")) ::_exit(1);
    for (int i = 0; i < 200; ++i)
      if (!connection->execute("INSERT INTO workloads (hash, text) VALUES ('x', hex(randomblob(4000)))")) ::_exit(2);
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  ASSERT_TRUE(std::filesystem::exists(path.string() + "-journal")) << "the test did not reach the file";
  auto db = open(path);
  ASSERT_TRUE(db) << db.error().to_string();
  EXPECT_EQ(count(**db), 3);
}

TEST(Sqlite, TwoProcessesAddAtOnce) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  const auto add_many = [&](const char* name) {
    auto db = open_sqlite_database(path);
    if (!db) ::_exit(1);
    for (int i = 0; i < 25; ++i)
      if (!(*db)->add(testing::record(10, fmt::format("{}{}", name, i), 1e-3))) ::_exit(2);
  };
  const pid_t child = ::fork();
  if (child == 0) {
    add_many("theirs");
    ::_exit(0);
  }
  EXPECT_EQ(in_child([&] { add_many("ours"); }), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  auto db = open(path);
  ASSERT_TRUE(db);
  EXPECT_EQ(count(**db), 50);
}

TEST(Sqlite, TwoProcessesMakeTheFileAtOnce) {
  TempFolder folder;
  for (int i = 0; i < 200; ++i) {
    const auto path = folder.path / fmt::format("{}.db", i);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(open_sqlite_database(path) ? 0 : 1);
    const auto ours = open_sqlite_database(path);
    EXPECT_TRUE(ours) << ours.error().to_string();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
}

TEST(Sqlite, LockedByAnother) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  make_with(path, 1);
  auto db = open(path);
  ASSERT_TRUE(db);
  auto other = Connection::open(path.string(), Connection::Mode::kReadWrite, 0);
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->execute("BEGIN EXCLUSIVE"));
  EXPECT_EQ((*db)->add(testing::record(10, "u", 1e-3)).error().code, ErrorCode::E502);
  EXPECT_EQ((*db)->records(testing::task(10)).error().code, ErrorCode::E502);
  EXPECT_EQ(open(path).error().code, ErrorCode::E502);
  ASSERT_TRUE(other->execute("ROLLBACK"));
  EXPECT_TRUE((*db)->add(testing::record(10, "u", 1e-3)));
  EXPECT_EQ(count(**db), 2);
}

TEST(Sqlite, ManyRecordsAreAllOrNone) {
  TempFolder folder;
  auto db = open(folder.path / "r.db");
  ASSERT_TRUE(db);
  std::vector<Record> records(10, testing::record(10, "t", 1e-3));
  records.back().median_s =
      std::numeric_limits<double>::quiet_NaN();  // SQLite takes NaN for NULL, which no column may be
  EXPECT_FALSE((*db)->add_all(records));
  EXPECT_EQ(count(**db), 0);
  ASSERT_TRUE((*db)->add(testing::record(10, "t", 1e-3)))
      << "the workload of the failed attempt must not be remembered";
  EXPECT_EQ((*db)->records(testing::task(10))->size(), 1u);
}

TEST(Sqlite, AFullDiskRefusesAndKeepsWhatIsThere) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  make_with(path, 3);
  const int status = in_child([&] {
    auto db = open(path);
    if (!db) ::_exit(1);
    const auto limit = static_cast<rlim_t>(std::filesystem::file_size(path)) + 8192;
    const rlimit file_limit{limit, limit};
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &file_limit) != 0) ::_exit(2);
    Record large = testing::record(10, std::string(1 << 20, 'x'), 1e-3);
    const auto added = (*db)->add(large);
    if (added) ::_exit(3);
    if (added.error().code != ErrorCode::E505) ::_exit(4);
    if ((*db)->records(testing::task(10))->size() != 3) ::_exit(5);
  });
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  auto db = open(path);
  ASSERT_TRUE(db) << db.error().to_string();
  EXPECT_EQ(count(**db), 3);
}

// --- versions

void insert_version_1(const std::filesystem::path& path) {
  auto connection = Connection::open(path.string(), Connection::Mode::kReadWrite, 1000);
  ASSERT_TRUE(connection);
  ASSERT_TRUE(sqlite::migrate(*connection, 1));
  const TaskKey task = testing::task(10);
  ASSERT_TRUE(connection->execute(fmt::format("INSERT INTO workloads (hash, text) VALUES ('{}', '{}')",
                                              task.workload.hash.hex(), task.workload.text)
                                      .c_str()));
  ASSERT_TRUE(connection->execute(
      fmt::format(
          "INSERT INTO records (workload, features, fingerprint, threads, versions, trace, trace_hash, decisions, "
          "error, signal, message, median_s, min_s, half_width, repeats, machine, created_ns, seed, generation, "
          "candidate) VALUES (1, '{}', '{}', 1, '{}', 'old trace', '{}', '{{}}', '', 0, '', 0.002, 0.001, 0.01, 9, "
          "'m', 5, 6, 7, 8)",
          task.target_features, task.fingerprint.hex(), task.versions, digest_bytes("old trace").hex())
          .c_str()));
}

TEST(Sqlite, MigratesAnOlderSchema) {
  TempFolder folder;
  const auto path = folder.path / "old.db";
  insert_version_1(path);
  {
    auto reader = open(path, true);  // in memory: the file stays as it is
    ASSERT_TRUE(reader) << reader.error().to_string();
    EXPECT_EQ((*reader)->best(testing::task(10), 1)->at(0).trace, "old trace");
    EXPECT_EQ((*reader)->add(testing::record(10, "u", 1e-3)).error().code, ErrorCode::E505);
    auto connection = Connection::open(path.string(), Connection::Mode::kReadOnly, 0);
    EXPECT_EQ(*connection->integer("PRAGMA user_version"), 1);
  }
  auto db = open(path);
  ASSERT_TRUE(db) << db.error().to_string();
  auto best = (*db)->best(testing::task(10), 1);
  ASSERT_TRUE(best) << best.error().to_string();
  ASSERT_EQ(best->size(), 1u);
  EXPECT_EQ(best->at(0).median_s, 0.002);
  EXPECT_FALSE(best->at(0).raced_out);
  EXPECT_EQ(best->at(0).pace, 1);
  EXPECT_TRUE((*db)->add(testing::record(10, "new", 1e-3)));
  EXPECT_TRUE((*db)->set_fact("m", "k", std::vector<double>{1}));
  EXPECT_EQ(best->at(0).run, 0u);
  EXPECT_TRUE((*db)->runs()->empty());
  EXPECT_TRUE((*db)->keep_run(testing::run(9, 1)));
  EXPECT_EQ((*db)->runs()->at(0).tasks.size(), 2u);
  auto connection = Connection::open(path.string(), Connection::Mode::kReadOnly, 0);
  EXPECT_EQ(*connection->integer("PRAGMA user_version"), sqlite::schema_version());
}

TEST(Sqlite, OfANewerProgram) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  make_with(path, 1);
  auto connection = Connection::open(path.string(), Connection::Mode::kReadWrite, 1000);
  ASSERT_TRUE(connection->execute("PRAGMA user_version = 1000"));
  EXPECT_EQ(open(path).error().code, ErrorCode::E504);
  EXPECT_EQ(open(path, true).error().code, ErrorCode::E504);
}

// --- files that are none

TEST(Sqlite, NotADatabaseAtAll) {
  TempFolder folder;
  std::ofstream(folder.path / "text") << std::string(5000, 'x');
  EXPECT_EQ(open(folder.path / "text").error().code, ErrorCode::E503);
  EXPECT_EQ(open(folder.path / "text", true).error().code, ErrorCode::E503);
  std::ofstream(folder.path / "short") << "short";
  EXPECT_EQ(open(folder.path / "short").error().code, ErrorCode::E503);
  std::ofstream(folder.path / "empty").flush();
  EXPECT_EQ(open(folder.path / "empty", true).error().code, ErrorCode::E503);
  EXPECT_TRUE(open(folder.path / "empty"));
}

TEST(Sqlite, AnotherProgramsDatabase) {
  TempFolder folder;
  {
    auto connection = Connection::open((folder.path / "r.db").string(), Connection::Mode::kReadWrite, 1000);
    ASSERT_TRUE(connection->execute("CREATE TABLE records (x)"));
  }
  EXPECT_EQ(open(folder.path / "r.db").error().code, ErrorCode::E503);
}

TEST(Sqlite, Damaged) {
  TempFolder folder;
  const auto path = folder.path / "r.db";
  make_with(path, 60);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::copy_file(path, folder.path / "cut.db");
  std::filesystem::resize_file(folder.path / "cut.db", size / 2 + 100);
  EXPECT_EQ(open(folder.path / "cut.db").error().code, ErrorCode::E503);
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << std::string(6000, '\x5a');
  }
  EXPECT_EQ(open(path).error().code, ErrorCode::E503);
  EXPECT_EQ(open(path, true).error().code, ErrorCode::E503);
}

TEST(Sqlite, CannotBeOpened) {
  TempFolder folder;
  EXPECT_EQ(open(folder.path / "no/such/folder/r.db").error().code, ErrorCode::E501);
  EXPECT_EQ(open(folder.path).error().code, ErrorCode::E501);
  EXPECT_EQ(open(folder.path / "none.db", true).error().code, ErrorCode::E501);
  EXPECT_FALSE(std::filesystem::exists(folder.path / "none.db"));
}

TEST(Sqlite, AReadOnlyCopyIsAWholeDatabase) {
  TempFolder folder;
  make_with(folder.path / "r.db", 5);
  auto writer = open(folder.path / "r.db");  // still open while the file is copied
  ASSERT_TRUE((*writer)->add(testing::record(10, "last", 1e-4)));
  std::filesystem::create_directory(folder.path / "ro");
  std::filesystem::copy_file(folder.path / "r.db", folder.path / "ro/copy.db");
  std::filesystem::permissions(folder.path / "ro/copy.db", std::filesystem::perms::owner_read);
  std::filesystem::permissions(folder.path / "ro",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  {
    auto copy = open(folder.path / "ro/copy.db", true);
    ASSERT_TRUE(copy) << copy.error().to_string();
    EXPECT_EQ((*copy)->best(testing::task(10), 1)->at(0).trace, "last");
    EXPECT_EQ((*copy)->add(testing::record(10, "u", 1e-3)).error().code, ErrorCode::E505);
  }
  std::filesystem::permissions(folder.path / "ro", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace fettle
