#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, InterruptedCompilingLeavesNothing) {
  write_model("model.onnx");
  const Outcome outcome =
      fettle({"compile", path("model.onnx"), "-o", path("out.so")}, [](const std::string&) { return true; });
  EXPECT_EQ(outcome.status, 128 + 2);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("")))
    names.push_back(entry.path().filename().string());
  EXPECT_EQ(names, std::vector<std::string>{"model.onnx"});
}

}  // namespace fettle::testing_support
