#include "onnx-ml.pb.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, UnknownDimension) {
  write_model("open.onnx", [](onnx::ModelProto& model) {
    for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)})
      value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("N");
  });
  expect_refused({"compile", path("open.onnx"), "-o", path("out.so")}, "E604", {"x", "N", "--shape"});
  const Outcome fixed = fettle({"compile", path("open.onnx"), "-o", path("out.so"), "--shape", "x=5,3"});
  EXPECT_EQ(fixed.status, 0) << fixed.err;
}

TEST_F(Misuse, ShapeOfAnInputThatIsNotThere) {
  write_model("model.onnx");
  expect_refused({"compile", path("model.onnx"), "-o", path("out.so"), "--shape", "z=2,3"}, "E704", {"z"});
}

}  // namespace fettle::testing_support
