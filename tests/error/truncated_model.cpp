#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, TruncatedModel) {
  write_model("whole.onnx");
  const std::string bytes = read("whole.onnx");
  for (size_t length : {bytes.size() - 1, bytes.size() / 2, size_t{10}}) {
    write("cut.onnx", bytes.substr(0, length));
    const Outcome outcome = fettle({"compile", path("cut.onnx"), "-o", path("out.so")});
    EXPECT_EQ(outcome.status, 1) << length;
    EXPECT_TRUE(outcome.err.starts_with("fettle: E6")) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path("out.so")));
  }
  write("cut.onnx", bytes.substr(0, bytes.size() / 2));
  expect_refused({"compile", path("cut.onnx"), "-o", path("out.so")}, "E602");
}

}  // namespace fettle::testing_support
