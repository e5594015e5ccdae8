#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "database/sqlite_database.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, APipeThatNobodyReads) {
  ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value());
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_refused({"db", "export", path("records.db"), path("pipe")}, "E702", {"nobody reads"});
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(Misuse, ResultsGoThroughAPipe) {
  write_model("model.onnx");
  write_array("x.npy", {2, 3});
  std::filesystem::create_directory(path("results"));
  ASSERT_EQ(::mkfifo(path("results/y.npy").c_str(), 0600), 0);
  const int reader = ::open(path("results/y.npy").c_str(), O_RDONLY | O_NONBLOCK);
  const Outcome run =
      fettle({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
  EXPECT_EQ(run.status, 0) << run.err;
  char start[4096] = {};
  EXPECT_EQ(::read(reader, start, sizeof start), 128 + 2 * 4 * 4);
  EXPECT_EQ(std::string(start, 6), "\x93NUMPY");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path("results/y.npy")));
}

}  // namespace fettle::testing_support
