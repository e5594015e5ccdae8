#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, WrongUsageIsStatusTwo) {
  write_model("model.onnx");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {},
           {"frobnicate"},
           {"compile"},
           {"compile", path("model.onnx")},
           {"compile", path("model.onnx"), "-o", path("out.so"), "--shape", "x"},
           {"compile", path("model.onnx"), "-o", path("out.so"), "--shape", "x=1,,2"},
           {"compile", path("model.onnx"), "-o", path("out.so"), "--threads", "0"},
           {"bench", path("model.onnx"), "--against", "abacus"},
           {"run", path("model.onnx"), "--input", "x.npy", "--output-dir", path("results")},
           {"run", path("model.onnx")},
           {"run", path("model.so"), "--verify"},
           {"check"},
           {"tune", path("model.onnx"), "--time", "soon"},
           {"tune", path("model.onnx"), "--time", "1s", "--trials", "3"},
           {"inspect", path("model.onnx"), "--ir"},
           {"inspect", path("model.onnx"), "--graph", "--tasks"},
           {"inspect", path("model.onnx"), "--graph", "--after", "simplify"},
           {"inspect", path("model.onnx"), "--after", "no_such_pass"},
       }) {
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 2) << testing::PrintToString(args) << outcome.err;
    EXPECT_NE(outcome.err, "") << testing::PrintToString(args);
  }
  EXPECT_FALSE(std::filesystem::exists(path("out.so")));
}

TEST_F(Misuse, HelpIsNoMisuse) {
  for (const char* command : {"tune", "compile", "run", "bench", "check", "inspect"}) {
    const Outcome outcome = fettle({command, "--help"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("Example:"), std::string::npos) << outcome.out;
  }
}

}  // namespace fettle::testing_support
