#include "database/sqlite_database.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, AFolderForALibrary) {
  write_model("model.onnx");
  std::filesystem::create_directory(path("out.so"));
  expect_refused({"compile", path("model.onnx"), "-o", path("out.so")}, "E702", {"Is a directory"});
}

TEST_F(Misuse, AFolderForRecords) {
  ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value());
  std::filesystem::create_directory(path("records.jsonl"));
  expect_refused({"db", "export", path("records.db"), path("records.jsonl")}, "E702", {"Is a directory"});
}

}  // namespace fettle::testing_support
