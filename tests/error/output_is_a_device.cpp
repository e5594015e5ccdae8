#include "database/sqlite_database.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, ALibraryIsNoDevice) {
  write_model("model.onnx");
  for (const std::string device : {"/dev/null", "/dev/full"}) {
    expect_refused({"compile", path("model.onnx"), "-o", device}, "E702", {device, "device"});
    EXPECT_TRUE(std::filesystem::is_character_file(device));
    EXPECT_FALSE(std::filesystem::exists(device + ".h"));
  }
}

TEST_F(Misuse, ADeviceThatIsFull) {
  write_model("model.onnx");
  write_array("x.npy", {2, 3});
  std::filesystem::create_directory(path("results"));
  std::filesystem::create_symlink("/dev/full", path("results/y.npy"));
  expect_refused({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")}, "E702",
                 {"No space left on device"});
  EXPECT_TRUE(std::filesystem::is_symlink(path("results/y.npy")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(Misuse, ADatabaseIsNoDevice) {
  write_model("model.onnx");
  expect_refused({"tune", path("model.onnx"), "--trials", "1", "--db", "/dev/full"}, "E501", {"no regular file"});
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(Misuse, RecordsMayGoToADevice) {
  ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value());
  const Outcome exported = fettle({"db", "export", path("records.db"), "/dev/null"});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace fettle::testing_support
