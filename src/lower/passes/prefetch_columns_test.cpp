#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/text.h"
#include "lower/passes/passes.h"
#include "target/target.h"

namespace fettle {
namespace {

// What `access` asks for ahead, in a nest over vectors i and turns j.
std::string made_of(const std::string& access, int columns = 1000, int turns = 1000,
                    const std::string& annotations = " {in_order = 1}") {
  const std::string text = fmt::format(
      "lowered func f(A: f64[{0}], B: f64[4] output){1}:\n  for i in 200:\n    for j in {2}:\n      B[ramp(0, 1, 4)] = "
      "{3}\n",
      columns * 1000, annotations, turns, access);
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << text << (func ? "" : func.error().to_string());
  return func ? to_text(prefetch_columns(*func, *parse_target("x86-64-v3"))) : "";
}

TEST(PrefetchColumns, TheNextVectorOfEachRow) {
  const std::string text = made_of("A[ramp(j * 1000 + i * 4, 1, 4)] + A[ramp(j * 1000 + i * 4 + 2, 1, 4)]");
  EXPECT_NE(text.find("prefetch.i32(&A[j * 1000 + i * 4 + 9], 3i32)"), std::string::npos) << text;
  EXPECT_EQ(text.find("prefetch"), text.rfind("prefetch")) << "once for both: " << text;
}

TEST(PrefetchColumns, NothingElse) {
  const std::string column = "A[ramp(j * 1000 + i * 4, 1, 4)]";
  const auto asks = [](const std::string& text) { return text.find("prefetch") != std::string::npos; };
  EXPECT_TRUE(asks(made_of(column)));
  EXPECT_FALSE(asks(made_of("A[ramp(i * 1000 + j * 4, 1, 4)]")));   // a row
  EXPECT_FALSE(asks(made_of("A[ramp(j * 1000 + i * 40, 1, 4)]")));  // the next line is another one
  EXPECT_FALSE(asks(made_of("A[ramp(j * 1000 + i, 1000, 4)]")));    // no vector of neighbours
  EXPECT_FALSE(asks(made_of(column, 10, 10)));                      // it is in the cache
  EXPECT_FALSE(asks(made_of(column, 100000, 100000)));              // it would be gone again
  EXPECT_FALSE(asks(made_of(column, 1000, 1000, "")));
}

}  // namespace
}  // namespace fettle
