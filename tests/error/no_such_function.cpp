#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, NoSuchFunction) {
  write("f.tc", "def a(float(N) x) -> (y) { y(i) = x(i) } def b(float(N) x) -> (y) { y(i) = x(i) }\n");
  const std::string body = "(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n";
  write("f.mlir", "func.func @a" + body + "func.func @b" + body);
  write_model("model.onnx");
  const auto refused = [&](std::vector<std::string> args, const std::string& why) {
    if (args[0] != "check") args.insert(args.end(), {"-o", path("out.so")});
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 2) << args[0];
    EXPECT_NE(outcome.err.find("E709"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  };
  for (const char* command : {"compile", "convert", "check"}) {
    refused({command, path("f.tc"), "--function", "c"}, "there are: a, b");
    refused({command, path("f.mlir"), "--function", "c"}, "there are: a, b");
    refused({command, path("f.mlir")}, "\"main\"; there are: a, b");
    refused({command, path("model.onnx"), "--function", "a"}, "an ONNX model has none to choose from");
  }
}

}  // namespace fettle::testing_support
