#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, NotOnnx) {
  write("text.onnx", "This is a letter to a friend, and no model.\n");
  expect_refused({"compile", path("text.onnx"), "-o", path("out.so")}, "E602");
  write("empty.onnx", "");
  expect_refused({"compile", path("empty.onnx"), "-o", path("out.so")}, "E602");
  expect_refused({"check", path("text.onnx")}, "E602");
}

}  // namespace fettle::testing_support
