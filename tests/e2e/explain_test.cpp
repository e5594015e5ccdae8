// `fettle explain` of a trace: the program after each step, refused steps, records.

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

constexpr const char* kProgram = R"(func double(A: f32[24], B: f32[24] output):
  for i in 24:
    block B(v: spatial[24] = i):
      reads A[v]
      writes B[v]
      B[v] = A[v] * 2.0
)";

class ExplainTrace : public Misuse {
 protected:
  Outcome explain(const std::string& program, const std::string& trace, const std::vector<std::string>& more = {}) {
    std::ofstream(path("program")) << program;
    std::ofstream(path("trace")) << trace;
    std::vector<std::string> args = {"explain", "--program", path("program"), "--trace", path("trace")};
    args.insert(args.end(), more.begin(), more.end());
    return fettle(args);
  }
};

TEST_F(ExplainTrace, ShowsTheProgramAfterEachStep) {
  const std::string trace =
      "b0 = get_block(name=\"B\")\nl1 = get_loops(block=b0)\nv2 = sample_categorical(candidates=[2], "
      "probabilities=[1], "
      "name=\"unused\")\nl3, l4 = split(loop=l1, factors=[-1, 8])\nvectorize(loop=l4)\n";
  const Outcome outcome = explain(kProgram, trace);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part :
       {"# l3, l4 = split(loop=l1", "# vectorize(loop=l4)", "for i_1 in 8:", "for i_1 in 8 vectorized:"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  const json shown = json::parse(explain(kProgram, trace, {"--json"}).out);
  ASSERT_EQ(shown.at("steps").size(), 5u);
  EXPECT_EQ(shown.at("steps").at(2).at("program"), "");
  EXPECT_FALSE(shown.contains("refused"));
  const json simple = json::parse(explain(kProgram, trace, {"--json", "--simplify"}).out);
  EXPECT_EQ(simple.at("steps").size(), 4u);  // without the unused decision
}

TEST_F(ExplainTrace, ARefusedStepIsStatusOne) {
  const std::string trace =
      "b0 = get_block(name=\"B\")\nl1 = get_loops(block=b0)\nl2, l3 = split(loop=l1, factors=[4, 6])\n"
      "vectorize(loop=l3)\nl4, l5 = split(loop=l2, factors=[3, 1])\n";
  const Outcome outcome = explain(kProgram, trace);
  EXPECT_EQ(outcome.status, 1);
  for (const char* part : {"E204", "refused: split(", "^^^", "The smallest trace that shows it:"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  const json shown = json::parse(explain(kProgram, trace, {"--json"}).out);
  EXPECT_EQ(shown.at("refused").at("code"), "E204");
  EXPECT_EQ(shown.at("refused").at("smallest").get<std::string>().find("vectorize"), std::string::npos);
}

TEST_F(ExplainTrace, Misuses) {
  EXPECT_EQ(explain("func", "").status, 1);  // no program
  EXPECT_NE(explain(kProgram, "splitt()").err.find("E224"), std::string::npos);
  EXPECT_NE(explain(kProgram, "splitt()").err.find("line 1"), std::string::npos);
  EXPECT_EQ(fettle({"explain", "--program", path("program")}).status, 2);
  EXPECT_EQ(fettle({"explain", "--program", path("none"), "--trace", path("trace")}).status, 1);
  EXPECT_EQ(fettle({"explain", "E201", "--program", path("program"), "--trace", path("trace")}).status, 2);
  EXPECT_EQ(fettle({"explain", "--db", path("none.db"), "--task", "00"}).status, 1);
}

}  // namespace
}  // namespace fettle::testing_support
