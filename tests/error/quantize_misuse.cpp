#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, QuantizeWithoutSamples) {
  write_model("model.onnx");
  std::filesystem::create_directories(path("empty"));
  expect_refused({"quantize", path("model.onnx"), "-o", path("out.onnx"), "--calibrate", path("empty")}, "E701",
                 {"empty"});
  expect_refused({"quantize", path("model.onnx"), "-o", path("out.onnx"), "--calibrate", path("nowhere")}, "E701",
                 {"nowhere"});
}

TEST_F(Misuse, QuantizeOfSamplesThatDoNotFit) {
  write_model("model.onnx");
  write_array("x.npy", {7, 5});
  const Outcome outcome =
      fettle({"quantize", path("model.onnx"), "-o", path("out.onnx"), "--calibrate", path("x.npy")});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("out.onnx")));
}

}  // namespace fettle::testing_support
