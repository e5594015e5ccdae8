// `fettle doctor` and `fettle explain`.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/support.h"
#include "target/target.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;
using Doctor = Misuse;

json check_of(const json& report, const std::string& name) {
  for (const json& check : report.at("checks"))
    if (check.at("name") == name) return check;
  return {};
}

TEST_F(Doctor, SaysWhatTheMachineIs) {
  const Outcome outcome = fettle({"doctor", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const json report = json::parse(outcome.out);
  const Target target = detect_host();
  EXPECT_EQ(report.at("target").at("features"), target.features);
  EXPECT_EQ(report.at("target").at("fingerprint"), target.fingerprint().hex());
  EXPECT_EQ(report.at("caches").size(), target.caches.size());
  EXPECT_EQ(report.at("threads").at("usable"), available_threads());
  const json& peaks = report.at("peaks");
  EXPECT_GT(peaks.at("gflops_one_thread"), 0);
  EXPECT_GT(peaks.at("gflops_all_threads"), 0);
  ASSERT_GE(peaks.at("memory").size(), 1u);
  EXPECT_EQ(peaks.at("memory").at(0).at("level"), "L1");
  for (const json& level : peaks.at("memory"))
    for (const char* what : {"copied", "read"}) {
      EXPECT_GT(level.at(what).at("gb_per_s"), 0);
      EXPECT_GT(level.at(what).at("gb_per_s_all_threads"), 0);
    }
  for (const char* kind : {"int8", "bf16"})  // null where the processor has none
    if (const json& rate = peaks.at(kind); !rate.is_null()) {
      EXPECT_GT(rate.at("gops_all_threads"), 0);
    }
  EXPECT_GT(report.at("limits").at("memory_bytes"), 0);
  EXPECT_TRUE(report.at("limits").at("container").contains("cpus"));
  EXPECT_TRUE(report.at("usable"));
  EXPECT_TRUE(check_of(report, "fettle-worker").at("present"));
  EXPECT_TRUE(check_of(report, "model_peers.py").at("present"));
  EXPECT_FALSE(check_of(report, "micro-kernel table").at("present"));  // no caches here, and none is made
}

TEST_F(Doctor, AProgramAloneIsNotUsable) {
  std::filesystem::copy_file(FETTLE_BINARY_DIR "/bin/fettle", path("fettle"));
  const std::string command = path("fettle") + " doctor --json >" + path("report") + " 2>" + path("err");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1) << read("err");
  const json report = json::parse(read("report"));
  EXPECT_FALSE(report.at("usable"));
  EXPECT_FALSE(check_of(report, "fettle-worker").at("present"));
  EXPECT_TRUE(check_of(report, "fettle-worker").at("essential"));
  EXPECT_FALSE(check_of(report, "model_peers.py").at("present"));
}

TEST_F(Doctor, ExplainsEveryCode) {
  size_t count = 0;
  const ErrorInfo* table = error_table(&count);
  const json all = json::parse(fettle({"explain", "--json"}).out).at("errors");
  ASSERT_EQ(all.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(all.at(i).at("code"), table[i].name);
    EXPECT_EQ(all.at(i).at("meaning"), table[i].meaning);
    EXPECT_EQ(all.at(i).at("remedy"), table[i].remedy);
  }
  const ErrorInfo& e201 = *find_error("E201");
  for (const char* code : {"E201", "e201"}) {
    const Outcome one = fettle({"explain", code});
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.out.find(e201.meaning), std::string::npos) << one.out;
    EXPECT_NE(one.out.find(e201.remedy), std::string::npos) << one.out;
  }
}

TEST_F(Doctor, AnUnknownCodeIsWrongUsage) {
  const Outcome near = fettle({"explain", "E709999"});
  EXPECT_EQ(near.status, 2);
  EXPECT_NE(near.err.find("the nearest is E"), std::string::npos) << near.err;
  EXPECT_NE(fettle({"explain", "E711"}).err.find("nearest is E710"), std::string::npos);
  EXPECT_NE(fettle({"explain", "E229"}).err.find("nearest is E228"), std::string::npos);
  for (const char* code : {"frost", "E", "E99999999999", "E20x"}) {
    const Outcome outcome = fettle({"explain", code});
    EXPECT_EQ(outcome.status, 2) << code;
    EXPECT_EQ(outcome.out, "") << code;
    EXPECT_NE(outcome.err.find("lists them all"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace fettle::testing_support
