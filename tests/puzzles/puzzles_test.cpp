// The puzzles of docs/puzzles/, and a solution of each: right, and tried by the command as a reader would. Whether it
// is fast enough depends on the machine, and is not asked here.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Puzzles : public Misuse {};

TEST_F(Puzzles, EachHasASolution) {
  const json listed = json::parse(fettle({"puzzle", "--json"}).out);
  ASSERT_EQ(listed.at("puzzles").size(), 10u);
  for (const json& puzzle : listed.at("puzzles")) {
    const int number = puzzle.at("number").get<int>();
    const std::string name = puzzle.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const std::string solution =
        std::string(FETTLE_SOURCE_DIR) + fmt::format("/tests/puzzles/solutions/{:02}_{}.trace", number, name);
    ASSERT_TRUE(std::filesystem::exists(solution)) << solution;
    const Outcome outcome = fettle({"puzzle", name, "--trace", solution, "--json"});
    const json tried = json::parse(outcome.out);
    ASSERT_FALSE(tried.contains("error")) << outcome.out;
    EXPECT_GT(tried.at("times_of_own").get<double>(), 0);
    EXPECT_EQ(tried.at("solved").get<bool>(), tried.at("times_of_own").get<double>() <= puzzle.at("bar").get<double>());
    EXPECT_EQ(outcome.status, tried.at("solved").get<bool>() ? 0 : 1);
  }
}

TEST_F(Puzzles, AreShown) {
  const Outcome shown = fettle({"puzzle", "3"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_NE(shown.out.find("func matmul("), std::string::npos);
  EXPECT_EQ(shown.out.find("<!--"), std::string::npos);
}

TEST_F(Puzzles, AStepThatIsRefusedIsExplained) {
  std::ofstream(path("wrong.trace"))
      << "b0 = get_block(name=\"C\")\nl1, l2, l3 = get_loops(block=b0)\nvectorize(loop=l3)\n";
  const Outcome outcome = fettle({"puzzle", "2", "--trace", path("wrong.trace")});
  EXPECT_EQ(outcome.status, 1);
  for (const char* part : {"E210", "^^^", "wrong.trace"})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

TEST_F(Puzzles, WithoutAScheduleItIsNotSolved) {
  std::ofstream(path("none.trace")) << "";
  const Outcome outcome = fettle({"puzzle", "3", "--trace", path("none.trace")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("not yet"), std::string::npos) << outcome.out << outcome.err;
}

TEST_F(Puzzles, UnknownOnes) {
  const Outcome outcome = fettle({"puzzle", "11"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("1 to 10"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace fettle::testing_support
