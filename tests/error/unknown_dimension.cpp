#include "onnx-ml.pb.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, UnknownDimension) {
  write_model("open.onnx", [](onnx::ModelProto& model) {
    for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)})
      value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("N");
  });
  const auto compile = [&](std::vector<std::string> more) {
    std::vector<std::string> command{"compile", path("open.onnx"), "-o", path("out.so")};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--shape", "x=5,3"}, {"--range", "N=1..64:8", "--tune-at", "N=16"}}) {
    const Outcome made = fettle(compile(more));
    EXPECT_EQ(made.status, 0) << made.err;
  }
  expect_refused(compile({"--range", "M=1..2"}), "E704", {"M", "N"});
  expect_refused(compile({"--range", "N=9..15:8"}), "E705", {"N", "9", "15", "8"});
}

TEST_F(Misuse, ShapeOfAnInputThatIsNotThere) {
  write_model("model.onnx");
  expect_refused({"compile", path("model.onnx"), "-o", path("out.so"), "--shape", "z=2,3"}, "E704", {"z"});
}

}  // namespace fettle::testing_support
