#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, UnwritableLibrary) {
  write_model("model.onnx");
  expect_refused({"compile", path("model.onnx"), "-o", path("no/such/folder/out.so")}, "E702", {"out.so"});
}

TEST_F(Misuse, HeaderCannotBeWritten) {
  write_model("model.onnx");
  write("out.so", "an older one");
  std::filesystem::create_directories(path("out.h/occupied"));
  expect_refused({"compile", path("model.onnx"), "-o", path("out.so")}, "E702", {"out.h"});
  EXPECT_EQ(read("out.so"), "an older one");
}

TEST_F(Misuse, UnwritableResults) {
  write_model("model.onnx");
  write_array("x.npy", {2, 3});
  write("results", "a file where the folder should be");
  expect_refused({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")}, "E702");
}

}  // namespace fettle::testing_support
