#include <fmt/format.h>

#include "frontend/comprehension/testing.h"

namespace fettle {
namespace {

std::string graph_text(const std::string& text) {
  const auto graph = import_comprehension(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? to_text(*graph, true) : "";
}

// Forwards along one dim and backwards along another: what is set first reads an edge, where its index is held.
TEST(InitialValues, AreReadAtEdges) {
  for (const bool is_used : {false, true}) {
    const std::string text = fmt::format(R"(
      def f(float(W,H) I, float(W,H) P) -> (P) {{
        for j in 0:H {{ P(i, H - 1 - j) = I(i, j) + (j {} 0 ? P(i, H - j) * I(i, 0) : 0.0) where i in 0:W }}
      }})",
                                         is_used ? ">=" : ">");
    Table in = some({3, 5}), p = some({3, 5}, kF32, -2, 3), wanted = p;
    for (int j = 0; j < 5; ++j)
      for (int i = 0; i < 3; ++i) {
        const double before = j > 0 ? wanted(i, 5 - j) : is_used ? p(i, 4) : 0;
        wanted(i, 4 - j) = in(i, j) + before * in(i, 0);
      }
    expect_makes(text, {{"I", in}, {"P", p}}, {{"P", wanted}});
    const std::string made = graph_text(text);
    EXPECT_NE(made.find("block P_before_0("), std::string::npos) << made;
    EXPECT_EQ(made.find("block P_before("), std::string::npos) << made;
  }
}

TEST(InitialValues, AreNotReadWhereAllIsSetBefore) {
  const std::string text = "def f(float(N) I, float(N) P) -> (P) { for j in 0:N { P(j) = I(j) * 2.0 } }";
  Table in = some({7}), wanted({7});
  for (int j = 0; j < 7; ++j) wanted(j) = 2 * in(j);
  expect_makes(text, {{"I", in}, {"P", some({7}, kF32, -2, 3)}}, {{"P", wanted}});
  EXPECT_EQ(graph_text(text).find("_before"), std::string::npos);
}

// What a later iteration sets, what no iteration sets, and what stays below the diagonal.
TEST(InitialValues, AreReadElsewhere) {
  for (const char* body :
       {"for j in 0:N { P(j) = I(j) + (j < N - 1 ? P(j + 1) : 0.0) }", "for j in 1:N { P(j) = I(j) + P(j - 1) }",
        "for j in 0:N { P(j) = I(j) + P(j) }", "for j in 0:N { P(N - 1 - j) = I(j) + P(j) }",
        "for j in 0:N { P(j) = I(j) P(j) = I(j) + P(j) }"}) {
    const std::string text = fmt::format("def f(float(N) I, float(N) P) -> (P) {{ {} }}", body);
    EXPECT_NE(graph_text(text).find("block P_before("), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace fettle
