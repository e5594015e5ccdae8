#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, NoSuchFunction) {
  write("f.tc", "def a(float(N) x) -> (y) { y(i) = x(i) } def b(float(N) x) -> (y) { y(i) = x(i) }\n");
  const std::string body = "(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n";
  write("f.mlir", "func.func @a" + body + "func.func @b" + body);
  write_model("model.onnx");
  for (const char* model : {"f.tc", "f.mlir"})
    for (const char* command : {"compile", "convert"})
      expect_refused({command, path(model), "-o", path("out.so"), "--function", "c"}, "E709", {"there are: a, b"});
  expect_refused({"check", path("f.tc"), "--function", "c"}, "E709", {"there are: a, b"});
  expect_refused({"compile", path("f.mlir"), "-o", path("out.so")}, "E709", {"\"main\"; there are: a, b"});
  for (const char* command : {"compile", "check"}) {
    std::vector<std::string> args = {command, path("model.onnx"), "--function", "a"};
    if (args[0] == "compile") args.insert(args.end(), {"-o", path("out.so")});
    expect_refused(args, "E709", {"an ONNX model has none to choose from"});
  }
}

}  // namespace fettle::testing_support
