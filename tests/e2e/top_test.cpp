// `fettle top`: what records say of a tuning that is under way, or has ended.

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Top : public Misuse {};

TEST_F(Top, FollowsATuning) {
  write_model("model.onnx");
  json seen;
  const Outcome tuned =
      fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "12", "--threads", "1"},
             [&](const std::string&) {
               const Outcome looked = fettle({"top", "--db", path("records.db"), "--json"});
               if (looked.status == 0) seen = json::parse(looked.out);
               return false;
             });
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  const json last = json::parse(fettle({"top", "--db", path("records.db"), "--json"}).out);
  EXPECT_TRUE(last.at("ended").get<bool>());
  EXPECT_GT(last.at("trials").get<int>(), 0);
  EXPECT_GT(last.at("tasks").size(), 0u);
  if (!seen.is_null()) {
    EXPECT_LE(seen.at("trials").get<int>(), last.at("trials").get<int>());
  }
  const Outcome shown = fettle({"top", "--db", path("records.db")});  // it has ended, so this ends, too
  EXPECT_NE(shown.out.find("model: ended"), std::string::npos) << shown.out;
}

TEST_F(Top, WithoutRecords) {
  const Outcome outcome = fettle({"top", "--db", path("none.db")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("E501"), std::string::npos) << outcome.err;
  EXPECT_EQ(fettle({"top", "--every", "soon"}).status, 2);
}

}  // namespace
}  // namespace fettle::testing_support
