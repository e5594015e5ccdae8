#include "database/sqlite_database.h"
#include "support/support.h"

namespace fettle::testing_support {

// In /sys nobody makes a file, whoever they are.
TEST_F(Misuse, AFolderThatCannotBeWrittenTo) {
  write_model("model.onnx");
  expect_refused({"compile", path("model.onnx"), "-o", "/sys/out.so"}, "E702", {"/sys/out.so"});
  ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value());
  expect_refused({"db", "export", path("records.db"), "/sys/records.jsonl"}, "E702", {"/sys/records.jsonl"});
}

}  // namespace fettle::testing_support
