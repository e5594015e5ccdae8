#include <utility>

#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, NotOfItsKind) {
  write("text.onnx", "This is a letter to a friend, and no model.\n");
  expect_refused({"compile", path("text.onnx"), "-o", path("out.so")}, "E602", {"read as an ONNX model"});
  write("empty.onnx", "");
  expect_refused({"compile", path("empty.onnx"), "-o", path("out.so")}, "E602");
  expect_refused({"check", path("text.onnx")}, "E602");
  for (const auto& [name, kind] :
       {std::pair("letter.mlir", "a StableHLO program"), {"letter.fettle", "a saved graph"}}) {
    write(name, "This is a letter to a friend, and no model.\n");
    expect_refused({"compile", path(name), "-o", path("out.so")}, "E602", {std::string("read as ") + kind});
    EXPECT_EQ(fettle({"compile", path(name), "-o", path("out.so")}).err.find("ONNX"), std::string::npos) << name;
  }
}

}  // namespace fettle::testing_support
