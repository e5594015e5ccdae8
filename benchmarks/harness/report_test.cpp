#include "harness/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace fettle::bench {
namespace {

Report sample() {
  Report report("sample");
  report.add("GEMM 512^3, hand", 97.94, "% of peak", at_least(97));
  report.add("regret", 3.5, "%", at_most(3));
  report.add("rank correlation", 0.81234, "");
  return report;
}

TEST(ReportTest, TableIsAlignedAndSaysWhatMissed) {
  EXPECT_EQ(sample().table(),
            "what               value  unit       bound\n"
            "GEMM 512^3, hand   97.94  % of peak  >= 97    ok\n"
            "regret             3.500  %          <= 3     MISSED\n"
            "rank correlation  0.8123\n");
}

TEST(ReportTest, HoldsOnlyWhereEveryBoundDoes) {
  EXPECT_FALSE(sample().all_hold());
  Report report("r");
  report.add("a", 1, "s");
  report.add("b", 2, "s", at_most(2));
  EXPECT_TRUE(report.all_hold());
  report.add("c", std::numeric_limits<double>::quiet_NaN(), "s", at_most(2));
  EXPECT_FALSE(report.all_hold());
}

TEST(ReportTest, JsonListsEveryFigure) {
  Report report = sample();
  report.add("not had", std::numeric_limits<double>::quiet_NaN(), "s", at_most(2));
  const auto json = nlohmann::json::parse(report.json());
  ASSERT_EQ(json.size(), 4U);
  EXPECT_EQ(json[0]["what"], "GEMM 512^3, hand");
  EXPECT_EQ(json[0]["value"], 97.94);
  EXPECT_EQ(json[0]["unit"], "% of peak");
  EXPECT_EQ(json[0]["bound"], ">= 97");
  EXPECT_EQ(json[0]["holds"], true);
  EXPECT_EQ(json[1]["holds"], false);
  EXPECT_TRUE(json[2]["bound"].is_null());
  EXPECT_TRUE(json[2]["holds"].is_null());
  EXPECT_TRUE(json[3]["value"].is_null());
  EXPECT_EQ(json[3]["holds"], false);
}

TEST(ReportTest, WritesAFileOrSaysWhyNot) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "fettle_report_test" / "deep";
  std::filesystem::remove_all(folder.parent_path());
  ASSERT_TRUE(sample().write(folder.string()));
  std::ifstream file(folder / "sample.json");
  EXPECT_EQ(nlohmann::json::parse(file).size(), 3U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const auto refused = sample().write((folder / "sample.json").string());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E702);
  std::filesystem::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace fettle::bench
