#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, ALibraryWithTheNameOfItsHeader) {
  write_model("model.onnx");
  const Outcome outcome = fettle({"compile", path("model.onnx"), "-o", path("model.h")});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(outcome.err.starts_with("fettle: E709: ")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("model.h")));
}

}  // namespace fettle::testing_support
