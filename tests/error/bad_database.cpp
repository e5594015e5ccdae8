#include <sqlite3.h>

#include "database/sqlite_database.h"
#include "support/support.h"

namespace fettle::testing_support {

class BadDatabase : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
  }
  std::vector<std::string> compile() const {
    return {"compile", path("model.onnx"), "-o", path("out.so"), "--db", path("records.db")};
  }
  void make_database() const { ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value()); }
  void execute(sqlite3* db, const char* sql) const {
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  }
};

TEST_F(BadDatabase, IsMissing) { expect_refused(compile(), "E501", {"records.db"}); }

TEST_F(BadDatabase, CannotBeMade) {
  expect_refused({"tune", path("model.onnx"), "--db", path("no/such/folder/records.db"), "--trials", "1"}, "E501",
                 {"records.db"});
}

TEST_F(BadDatabase, IsLocked) {
  make_database();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path("records.db").c_str(), &other), SQLITE_OK);
  execute(other, "BEGIN EXCLUSIVE");
  const Outcome outcome = fettle(compile());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.starts_with("fettle: E502: ")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("out.so")));
  execute(other, "ROLLBACK");
  sqlite3_close(other);
}

TEST_F(BadDatabase, IsCorrupt) {
  make_database();
  std::string bytes = read("records.db");
  ASSERT_GT(bytes.size(), 4096u);
  for (size_t i = 200; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37);
  write("records.db", bytes);
  expect_refused(compile(), "E503", {"records.db"});
}

TEST_F(BadDatabase, IsNone) {
  write("records.db", std::string(8192, 'x'));
  expect_refused(compile(), "E503", {"records.db"});
}

TEST_F(BadDatabase, IsOfANewerProgram) {
  make_database();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path("records.db").c_str(), &db), SQLITE_OK);
  execute(db, "PRAGMA user_version = 1000000");
  sqlite3_close(db);
  expect_refused(compile(), "E504", {"records.db"});
}

}  // namespace fettle::testing_support
