#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, JsonHoldsTheError) {
  const Outcome outcome = fettle({"compile", path("none.onnx"), "-o", path("out.so"), "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("\"code\":\"E601\""), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.err.starts_with("fettle: E601: ")) << outcome.err;
}

}  // namespace fettle::testing_support
