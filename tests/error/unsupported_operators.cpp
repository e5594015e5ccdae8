#include "onnx-ml.pb.h"
#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, UnsupportedOperatorsAreAllListed) {
  write_model("strange.onnx", [](onnx::ModelProto& model) {
    auto* first = model.mutable_graph()->mutable_node(0);
    first->set_op_type("Frobnicate");
    first->set_name("the first");
    auto* second = model.mutable_graph()->mutable_node(1);
    second->set_op_type("Perplex");
    second->set_name("the second");
  });
  expect_refused({"compile", path("strange.onnx"), "-o", path("out.so")}, "E603",
                 {"Frobnicate", "the first", "Perplex", "the second"});
}

}  // namespace fettle::testing_support
