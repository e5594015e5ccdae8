#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, NotAnArtefact) {
  write("letter.so", "Dear friend");
  expect_refused({"bench", path("letter.so")}, "E706", {"letter.so"});
  expect_refused({"bench", path("none.so")}, "E701", {"none.so"});
}

}  // namespace fettle::testing_support
