#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, UnreadableModel) {
  std::filesystem::create_directory(path("folder.onnx"));  // root reads any file, but a folder is no file
  expect_refused({"compile", path("folder.onnx"), "-o", path("out.so")}, "E601", {"folder.onnx"});
}

}  // namespace fettle::testing_support
