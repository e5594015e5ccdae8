// Tuning by the command: it records, compile uses it, and an interrupt keeps what was measured.

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "onnx-ml.pb.h"
#include "support/support.h"
#include "target/target.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Tune : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
  }
  int64_t records() const {
    const json listed = json::parse(fettle({"db", "ls", path("records.db"), "--json"}).out, nullptr, false);
    int64_t count = 0;
    for (const json& task : listed.at("tasks")) count += task.at("records").get<int64_t>();
    return count;
  }
};

TEST_F(Tune, RecordsAndCompileUsesThem) {
  const Outcome tuned =
      fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "6", "--threads", "1", "--json"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const json report = json::parse(tuned.out);
  EXPECT_GE(report.at("measured"), 1);
  EXPECT_GE(report.at("tasks").size(), 1u);
  EXPECT_GT(report.at("latency_ms").at("tuned"), 0);
  EXPECT_GE(records(), 1);
  const Outcome compiled = fettle(
      {"compile", path("model.onnx"), "-o", path("model.so"), "--db", path("records.db"), "--threads", "1", "--json"});
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  if (!report.at("kept_untuned").get<bool>()) {
    EXPECT_GE(json::parse(compiled.out).at("tuned_tasks"), 1);
  }
}

TEST_F(Tune, ForSeveralCallsAtOnce) {
  if (available_threads() < 2) GTEST_SKIP() << "one thread cannot be shared";
  const std::vector<std::string> streams = {"--db", path("records.db"), "--streams", "2", "--threads", "1", "--json"};
  const auto with = [](std::vector<std::string> begin, const std::vector<std::string>& rest) {
    begin.insert(begin.end(), rest.begin(), rest.end());
    return begin;
  };
  const Outcome tuned = fettle(with({"tune", path("model.onnx"), "--trials", "4"}, streams));
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const json report = json::parse(tuned.out);
  EXPECT_EQ(report.at("streams"), 2);
  EXPECT_EQ(report.at("threads"), 1);
  EXPECT_DOUBLE_EQ(report.at("runs_per_second").at("tuned"), 2e3 / report.at("latency_ms").at("tuned").get<double>());
  const auto tuned_tasks = [&](const Outcome& compiled) {
    EXPECT_EQ(compiled.status, 0) << compiled.err;
    return json::parse(compiled.out).at("tuned_tasks").get<int>();
  };
  if (!report.at("kept_untuned").get<bool>()) {
    EXPECT_GE(tuned_tasks(fettle(with({"compile", path("model.onnx"), "-o", path("two.so")}, streams))), 1);
  }
  // What was measured with two calls at once says nothing about one.
  EXPECT_EQ(tuned_tasks(fettle({"compile", path("model.onnx"), "-o", path("one.so"), "--db", path("records.db"),
                                "--threads", "1", "--json"})),
            0);
  const Outcome timed = fettle({"bench", path("model.onnx"), "--db", path("records.db"), "--streams", "2", "--threads",
                                "1", "--time", "0.05s", "--json"});
  ASSERT_EQ(timed.status, 0) << timed.err;
  EXPECT_EQ(json::parse(timed.out).at("streams").size(), 2u);
  const Outcome checked = fettle({"db", "check", path("records.db"), "--json"});
  ASSERT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(json::parse(checked.out).at("tasks_elsewhere"), 0) << "records of a share of this machine are its own";
}

TEST_F(Tune, StreamsNeedThreadsOfACpu) {
  const auto refused = [&](const std::vector<std::string>& args, const std::string& why) {
    const Outcome outcome = fettle(args);
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  };
  const std::string model = path("model.onnx"), database = path("records.db");
  refused({"tune", model, "--db", database, "--streams", "256", "--threads", "1024"}, "need 262144");
  refused({"tune", model, "--db", database, "--streams", "0"}, "--streams");
  refused({"tune", model, "--db", database, "--streams", "2", "--target", "opencl"}, "without --streams");
  refused({"compile", model, "-o", path("model.so"), "--streams", "256", "--threads", "1024"}, "E709");
  refused({"bench", model, "--streams", "256", "--threads", "1024"}, "E709");
  refused({"tune", model, "--db", database, "--streams", "2", "--tracker", "localhost:1", "--key", "k"},
          "devices time one call at a time");
}

TEST_F(Tune, SaysWhereNothingWasGained) {
  // The first trial of a task is its default.
  const std::vector<std::string> one_trial = {"tune", path("model.onnx"), "--db", path("records.db"), "--trials",
                                              "1",    "--threads",        "1"};
  std::vector<std::string> as_json = one_trial;
  as_json.emplace_back("--json");
  const Outcome told = fettle(one_trial), listed = fettle(as_json);
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_NE(told.out.find("nothing was found that is faster than the defaults"), std::string::npos) << told.out;
  ASSERT_EQ(listed.status, 0) << listed.err;
  const json report = json::parse(listed.out);
  EXPECT_EQ(report.at("other_schedules"), 0);
  EXPECT_EQ(report.at("latency_ms").at("tuned"), report.at("latency_ms").at("untuned"));
}

TEST_F(Tune, TemplatesAsTheSpace) {
  const Outcome tuned = fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "6", "--threads",
                                "1", "--space", "template", "--strategy", "random", "--json"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_GE(json::parse(tuned.out).at("measured"), 1);
  EXPECT_EQ(fettle({"db", "export", path("records.db"), path("records.jsonl")}).status, 0);
  std::ifstream exported(path("records.jsonl"));
  const std::string lines{std::istreambuf_iterator<char>(exported), {}};
  EXPECT_NE(lines.find("\"algorithm\""), std::string::npos) << "no record names its template";
  EXPECT_NE(fettle({"tune", path("model.onnx"), "--space", "magic"}).status, 0);
}

TEST_F(Tune, AGenerationAsItWasPublished) {
  for (const char* generation : {"autotvm", "ansor", "metaschedule"}) {
    const std::string database = path(std::string(generation) + ".db");
    const Outcome tuned = fettle({"tune", path("model.onnx"), "--db", database, "--trials", "4", "--threads", "1",
                                  "--generation", generation, "--json"});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    EXPECT_GE(json::parse(tuned.out).at("measured"), 1) << generation;
  }
  // Another space with another generation's strategy, model and scheduler.
  const Outcome mixed =
      fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "4", "--threads", "1", "--space",
              "ansor", "--strategy", "genetic", "--cost-model", "autotvm_curve_rank", "--scheduler", "metaschedule"});
  EXPECT_EQ(mixed.status, 0) << mixed.err;
}

TEST_F(Tune, WhatHasNoMeaningTogetherIsRefused) {
  const auto refused = [&](std::vector<std::string> options, const std::string& why) {
    std::vector<std::string> args{"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "2"};
    args.insert(args.end(), options.begin(), options.end());
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 2) << why;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path("records.db")));
  };
  refused({"--generation", "ansor", "--strategy", "random"}, "ansor has strategy ansor, not random");
  refused({"--generation", "autotvm", "--space", "rules"}, "autotvm has space autotvm, not rules");
  refused({"--generation", "metaschedule", "--cost-model", "trees"},
          "metaschedule has cost-model statements, not trees");
  refused({"--generation", "metaschedule", "--scheduler", "ansor"},
          "metaschedule has scheduler metaschedule, not ansor");
  refused({"--objective", "speedup"}, "the scheduler gradient has one objective only");
  refused({"--generation", "halide"}, "halide");
  refused({"--workload-equality", "anchor-block"}, "anchor-block");
}

TEST_F(Tune, RecordsOfTheSameMainBlockMayCount) {
  ASSERT_EQ(fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "6", "--threads", "1"}).status,
            0);
  write_model("other.onnx",
              [](onnx::ModelProto& model) { model.mutable_graph()->mutable_node(1)->set_op_type("Tanh"); });
  const auto tuned_tasks = [&](const char* equality) {
    const Outcome compiled = fettle({"compile", path("other.onnx"), "-o", path("other.so"), "--db", path("records.db"),
                                     "--threads", "1", "--workload-equality", equality, "--json"});
    EXPECT_EQ(compiled.status, 0) << compiled.err;
    return json::parse(compiled.out).at("tuned_tasks").get<int>();
  };
  EXPECT_EQ(tuned_tasks("structural"), 0);
  EXPECT_EQ(tuned_tasks("ignore-constants"), 0);
  EXPECT_GE(tuned_tasks("anchor-block"), 1);
  EXPECT_EQ(fettle({"bench", path("other.so"), "--time", "0.1"}).status, 0);
}

TEST_F(Tune, AReportOfAnotherModelIsRefused) {
  ASSERT_EQ(fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "3", "--threads", "1"}).status,
            0);
  write_model("other.onnx",
              [](onnx::ModelProto& model) { model.mutable_graph()->mutable_node(1)->set_op_type("Tanh"); });
  const Outcome refused = fettle({"report", path("records.db"), path("other.onnx"), "-o", path("report.html")});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("none of the 1 tasks of the run of \"model\""), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("report.html")));
  EXPECT_EQ(fettle({"report", path("records.db"), path("model.onnx"), "-o", path("report.html")}).status, 0);
}

TEST_F(Tune, GoesOnWhereItEnded) {
  const std::vector<std::string> args{
      "tune", path("model.onnx"), "--db", path("records.db"), "--trials", "6", "--threads", "1", "--json"};
  ASSERT_EQ(fettle(args).status, 0);
  const int64_t before = records();
  const Outcome again = fettle(args);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(json::parse(again.out).at("measured"), 0) << again.err;
  EXPECT_EQ(records(), before);
}

TEST_F(Tune, ByAnotherStrategyWithACostModelThatIsKept) {
  const auto tune = [&](const std::string& strategy, const std::string& database) {
    return fettle({"tune", path("model.onnx"), "--db", path(database), "--trials", "10", "--threads", "1", "--strategy",
                   strategy, "--model", path("learned")});
  };
  const Outcome first = tune("genetic", "a.db");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(std::filesystem::exists(path("learned")));
  const Outcome second = tune("annealing", "b.db");
  EXPECT_EQ(second.status, 0) << second.err;
  std::ofstream(path("learned")) << "something else";
  const Outcome refused = tune("annealing", "c.db");
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("E503"), std::string::npos) << refused.err;
  EXPECT_NE(tune("guessing", "d.db").status, 0);
}

TEST_F(Tune, AnInterruptKeepsWhatWasMeasured) {
  const Outcome stopped =
      fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--time", "100s", "--threads", "1", "--json"},
             [&](const std::string& err) { return err.find(" trials") != std::string::npos; });
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  const json report = json::parse(stopped.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << stopped.out << stopped.err;
  EXPECT_LT(report.at("seconds"), 60);
  EXPECT_GE(records(), report.at("measured").get<int64_t>());
}

}  // namespace
}  // namespace fettle::testing_support
