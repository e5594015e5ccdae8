#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, BrokenComprehension) {
  write("text.tc", "def f(float(M,K) A) -> (C) {\n  C(m) =+ A(m, k)\n}\n");
  expect_refused({"compile", path("text.tc"), "-o", path("out.so")}, "E611");
  write("meaning.tc", "def f(float(M,K) A) -> (C) {\n  C(m) = A(m, k)\n}\n");
  expect_refused({"compile", path("meaning.tc"), "-o", path("out.so")}, "E612");
  write("range.tc", "def f(float(M) A) -> (C) {\n  C(i) +=! A(i + j)\n}\n");
  expect_refused({"compile", path("range.tc"), "-o", path("out.so")}, "E613");
}

}  // namespace fettle::testing_support
