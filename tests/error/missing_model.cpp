#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, MissingModel) {
  expect_refused({"compile", path("none.onnx"), "-o", path("out.so")}, "E601", {"none.onnx"});
}

}  // namespace fettle::testing_support
